"""The GGUF files of the tiny models are the converter's, and their quantised copies hold what they should."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

import tiny_gguf
import tiny_models


def tensors(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize("variant", tiny_gguf.variants())
def test_files_are_rebuilt_exactly(variant, tmp_path):
    # `build` compares the file with the converter's by its hash.
    assert tensors(tiny_gguf.build(variant, tmp_path / "model.gguf"))


def test_query_rows_are_interleaved_for_llama(tmp_path):
    q = dict(tiny_models.weights("llama3", "f32"))["model.layers.0.self_attn.q_proj.weight"][1]
    stored = tensors(tiny_gguf.build("llama3", tmp_path / "model.gguf"))["blk.0.attn_q.weight"].data
    heads = q.reshape(4, 2, 8, 64)
    np.testing.assert_array_equal(stored.reshape(4, 8, 2, 64), heads.swapaxes(1, 2))


def test_gemma_norms_are_stored_plus_one(tmp_path):
    norm = dict(tiny_models.weights("gemma3_text", "f32"))["model.norm.weight"][1]
    stored = tensors(tiny_gguf.build("gemma3_text", tmp_path / "model.gguf"))["output_norm.weight"].data
    np.testing.assert_array_equal(stored, norm + 1)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0])
def test_quantised_copies(kind, tmp_path):
    source = tiny_gguf.build("llama3", tmp_path / "model.gguf")
    before, copy = tensors(source), tiny_gguf.quantised(source, tmp_path / "copy.gguf", kind)
    assert gguf.GGUFReader(copy).fields["llama.rope.freq_base"].contents() == 500000.0
    assert len(gguf.GGUFReader(copy).fields["tokenizer.ggml.tokens"].contents()) == tiny_models.VOCABULARY
    for name, tensor in tensors(copy).items():
        x = before[name].data
        if x.ndim < 2:
            np.testing.assert_array_equal(tensor.data, x)
            continue
        assert tensor.tensor_type == kind
        y = gguf.dequantize(tensor.data, kind)
        step = {Kind.F16: 0, Kind.BF16: 0, Kind.Q8_0: 1 / 127, Kind.Q4_0: 1 / 8}[kind]
        np.testing.assert_allclose(y, x, atol=step * np.abs(x).max())
        assert kind in (Kind.F16, Kind.BF16) or not np.array_equal(y, x)
