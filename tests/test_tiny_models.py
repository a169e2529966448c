"""The tiny checkpoints are the ones the oracle saw: their bytes never change, and each form holds the same weights."""

import hashlib
import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import tiny_models

# SHA-256 of the weights file, by stored type, for each kind of recipe.
PINNED = {
    ("llama3", "f32"): "de27a9034907af9301edada3a1c1fbd423abc706b60d50222b58ee498b699f19",
    ("llama3", "bf16"): "927e86862f11647c3840875c468a8a0810d1b36ea9190d1ab03a5297867912a9",
    ("llama3", "f16"): "00a8d5f83a3cbcc6c492cf57f68701cde6625e105d1841b4d1acabcfbe6abba8",
    ("gemma3_text", "bf16"): "c36d37b6dd9d02402b40e27c03c9d7156148f3257f022232517df28a2097e8be",
    ("smollm2", "bf16"): "ede9740f42cc48ddd5772a3d20398527c91926adcc4e907e33dc9f0e4ce23219",
}


@pytest.mark.parametrize(("variant", "dtype"), PINNED)
def test_bytes_are_pinned(variant, dtype, tmp_path):
    tiny_models.build(variant, tmp_path, dtype)
    assert hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest() == PINNED[variant, dtype]


def test_every_dtype_holds_the_same_values():
    half, single = dict(tiny_models.weights("qwen2", "f16")), dict(tiny_models.weights("qwen2", "f32"))
    for name, (kind, upper_halves) in tiny_models.weights("qwen2", "bf16"):
        assert kind == "BF16"
        x = single[name][1]
        np.testing.assert_array_equal(half[name][1].astype(np.float32), x)
        np.testing.assert_array_equal((upper_halves.astype(np.uint32) << 16).view(np.float32), x)


def test_values_follow_the_recipe():
    x = tiny_models.values("key", ([1000, 8], "normal", 1.0, 0.25))
    assert abs(x.mean() - 1.0) < 0.01
    assert abs(x.std() - 0.25) < 0.01
    y = tiny_models.values("key", ([1000, 8], "flipped_plus_one", 1.0, 0.25))
    np.testing.assert_allclose(np.abs(1 + y), 1 + x, atol=2.0**-6)
    assert 0.4 < np.mean(1 + y > 0) < 0.6
    assert not np.array_equal(x, tiny_models.values("other key", ([1000, 8], "normal", 1.0, 0.25)))
    codes = tiny_models.random_bytes("key", ([100, 10], "bytes", 3, 6))
    assert sorted(set(codes.flatten().tolist())) == [3, 4, 5, 6]


def test_rounding_is_to_nearest_even():
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, 2**-15], np.float32)
    np.testing.assert_array_equal(tiny_models.round_to_bf16(x), [1, 1 + 2**-6, 1 + 2**-7, -1, 0])


def test_patterns_expand():
    assert list(tiny_models.expand("a.{0-1,4}.b.{2,3}")) == [f"a.{i}.b.{j}" for i in (0, 1, 4) for j in (2, 3)]
    assert list(tiny_models.expand("head.weight")) == ["head.weight"]


def test_shards_hold_the_whole(tmp_path):
    whole = load_file(tiny_models.build("llama3", tmp_path / "whole") / "model.safetensors")
    sharded = tiny_models.build("llama3", tmp_path / "sharded", shards=4)
    weight_map = json.loads((sharded / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(weight_map) == set(whole)
    assert len(set(weight_map.values())) == 4
    for name, file in weight_map.items():
        with safe_open(sharded / file, "numpy") as tensors:
            np.testing.assert_array_equal(tensors.get_tensor(name), whole[name])


def test_forms_and_dtypes_of_the_config(tmp_path):
    current = json.loads((tiny_models.build("llama3_1", tmp_path) / "config.json").read_text())
    legacy = json.loads((tiny_models.build("llama3_1", tmp_path, "f16", "legacy") / "config.json").read_text())
    assert current["rope_parameters"]["rope_type"] == "llama3"
    assert current["dtype"] == "bfloat16"
    assert legacy["rope_theta"] == current["rope_parameters"]["rope_theta"]
    assert legacy["torch_dtype"] == "float16"


@pytest.mark.parametrize("variant", tiny_models.variants())
def test_weights_are_those_of_the_golden(variant):
    assert tiny_models.fingerprint(variant) == tiny_models.description(variant)["weights_sha256"]


@pytest.mark.parametrize("variant", tiny_models.variants())
def test_goldens_are_sound(variant):
    golden = tiny_models.golden(variant)
    for length, prompt in golden.prompts.items():
        assert prompt.ids.shape == (length,)
        assert prompt.greedy.shape == (16,)
        assert prompt.positions[-1] == length - 1
        assert prompt.logits.dtype == np.float32
        assert prompt.logits.shape == (len(prompt.positions), tiny_models.VOCABULARY)
        assert prompt.step_logits.shape == (len(prompt.steps), tiny_models.VOCABULARY)
        assert np.isfinite(prompt.logits).all()
        # Chosen so that float32 noise cannot change a token.
        assert prompt.logits[-1].argmax() == prompt.greedy[0]
        np.testing.assert_array_equal(prompt.step_logits.argmax(-1), prompt.greedy[prompt.steps])
        top = np.sort(prompt.step_logits, axis=-1)
        assert (top[:, -1] - top[:, -2]).min() > 0.03


def test_unknown_variant_names_the_known_ones():
    with pytest.raises(KeyError, match="llama3_1"):
        tiny_models.description("llama33")
