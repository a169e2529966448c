"""What GGUF calls things, in Hugging Face's spelling."""

import contextlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from checkpoint_files import LLAMA, write_gguf

from ferrule.checkpoint import open_checkpoint
from ferrule.checkpoint.gguf_names import FAMILIES, hf_config, hf_tensor_name
from ferrule.errors import CorruptFile


def config_of(keys: dict[str, Any], *, architecture: str = "llama") -> dict[str, Any]:
    """The config of LLAMA's keys with `keys` on top (None removes one)."""
    merged = {key.partition(".")[2]: value for key, value in LLAMA.items()} | keys
    metadata = {f"{architecture}.{key}": value for key, value in merged.items() if value is not None}
    return hf_config(architecture, metadata, {}, path=Path("m.gguf"))


ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "gemma3": gguf.MODEL_ARCH.GEMMA3,
}
HF_STEMS = [
    "model.embed_tokens",
    "model.norm",
    "lm_head",
    *(f"model.layers.11.self_attn.{part}_proj" for part in "qkvo"),
    *(f"model.layers.11.mlp.{part}_proj" for part in ("gate", "up", "down")),
    "model.layers.11.input_layernorm",
    "model.layers.11.post_attention_layernorm",
]
OWN_STEMS = {
    "llama": [],
    "qwen2": [],
    "qwen3": ["model.layers.11.self_attn.q_norm", "model.layers.11.self_attn.k_norm"],
    "gemma3": [
        "model.layers.11.self_attn.q_norm",
        "model.layers.11.self_attn.k_norm",
        "model.layers.11.pre_feedforward_layernorm",
        "model.layers.11.post_feedforward_layernorm",
    ],
}


def test_every_family_is_known_to_the_gguf_package() -> None:
    newer = {"deepseek32"}  # than the package that is installed, perhaps
    assert set(FAMILIES) - newer <= set(gguf.MODEL_ARCH_NAMES.values())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tensor_names_are_those_of_the_gguf_package(architecture: str) -> None:
    table = gguf.get_tensor_name_map(ARCHITECTURES[architecture], 12)
    for stem in HF_STEMS + OWN_STEMS[architecture]:
        for kind in (".weight", ".bias"):
            expected = table.get_name(stem + kind, try_suffixes=(kind,))
            assert expected is not None
            assert hf_tensor_name(architecture, expected) == stem + kind


@pytest.mark.parametrize(
    "name",
    [
        "rope_freqs.weight",
        "blk.0.ffn_gate_up_exps.weight",
        "blk.x.attn_q.weight",
        "attn_q.weight",
        "blk.0.attn_q",
        "a.b",
        "",
    ],
)
def test_unknown_tensors_keep_their_names(name: str) -> None:
    assert hf_tensor_name("llama", name) == name


def test_config_of_a_llama_file(tmp_path: Path) -> None:
    tensors = {
        "token_embd.weight": (np.zeros((384, 64), np.float32), None),
        "output.weight": (np.zeros((384, 64), np.float32), None),
        "rope_freqs.weight": (np.ones(8, np.float32), None),
    }
    keys = LLAMA | {"llama.rope.dimension_count": 16, "tokenizer.ggml.bos_token_id": 7}
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", keys, tensors))
    assert checkpoint.container == "gguf"
    assert checkpoint.config == {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "max_position_embeddings": 128,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "rms_norm_eps": pytest.approx(1e-5),
        "rope_theta": 10000.0,
        "vocab_size": 384,
        "tie_word_embeddings": False,
    }
    assert set(checkpoint.tensors) == {"model.embed_tokens.weight", "lm_head.weight", "rope_freqs.weight"}
    assert all(tensor.name == name for name, tensor in checkpoint.tensors.items())
    assert checkpoint.metadata["tokenizer.ggml.bos_token_id"] == 7


def test_without_an_output_matrix_embeddings_are_tied(tmp_path: Path) -> None:
    tensors = {"token_embd.weight": (np.zeros((384, 64), np.float32), None)}
    assert open_checkpoint(write_gguf(tmp_path / "m.gguf", LLAMA, tensors)).config["tie_word_embeddings"] is True


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param({"attention.head_count_kv": None}, {"num_key_value_heads": 4}, id="kv heads as many as heads"),
        pytest.param({"attention.key_length": 32, "attention.value_length": 32}, {"head_dim": 32}, id="head size"),
        pytest.param({"rope.dimension_count": 8}, {"partial_rotary_factor": 0.5}, id="partly rotated"),
        pytest.param({"attention.head_count_kv": [2, 2, 2]}, {"num_key_value_heads": 2}, id="one value for all layers"),
        pytest.param({"feed_forward_length": [96, 32]}, {"intermediate_size": [96, 32]}, id="a value per layer"),
        pytest.param({"vocab_size": 500}, {"vocab_size": 500}, id="vocabulary"),
        pytest.param({"attention.sliding_window": 77}, {"sliding_window": 77}, id="window"),
        pytest.param({"attention.sliding_window_pattern": 4}, {"sliding_window_pattern": 4}, id="every fourth"),
        pytest.param(
            {"attention.sliding_window_pattern": [False]}, {"layer_types": ["full_attention"]}, id="window per layer"
        ),
        pytest.param({"final_logit_softcapping": 30.0}, {"final_logit_softcapping": 30.0}, id="softcap"),
        pytest.param(
            {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
            {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
            id="linear",
        ),
        pytest.param(
            {"rope.scaling.factor": 4.0}, {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, id="untyped factor"
        ),
        pytest.param(
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 8.0,
                "rope.scaling.original_context_length": 32,
                "rope.scaling.yarn_attn_factor": 1.5,
                "rope.scaling.yarn_beta_fast": 16.0,
                "rope.scaling.yarn_beta_slow": 2.0,
            },
            {
                "rope_scaling": {
                    "rope_type": "yarn",
                    "factor": 8.0,
                    "original_max_position_embeddings": 32,
                    "attention_factor": 1.5,
                    "beta_fast": 16.0,
                    "beta_slow": 2.0,
                }
            },
            id="yarn",
        ),
        pytest.param({"attention.value_length": 8}, {"llama.attention.value_length": 8}, id="values of another size"),
        pytest.param({"expert_count": 8}, {"model_type": "mixtral", "num_local_experts": 8}, id="experts"),
        pytest.param({"expert_groups": 8}, {"llama.expert_groups": 8}, id="unknown"),
        pytest.param({"rope.something": [1, 2]}, {"llama.rope.something": [1, 2]}, id="not understood"),
    ],
)
def test_metadata_become_config(keys: dict[str, Any], expected: dict[str, Any]) -> None:
    config = config_of(keys)
    assert {key: config.get(key) for key in expected} == expected
    unknown = {key for key in config if key.startswith("llama.")}
    assert unknown == {key for key in expected if key.startswith("llama.")}


@pytest.mark.parametrize(
    "keys",
    [
        {"rope.scaling.type": "none", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32},
        {"rope.scaling.type": "linear", "rope.scaling.factor": 0.0},
        {"rope.scaling.finetuned": True, "rope.scaling.attn_factor": 1.0},
        {"expert_count": 0, "expert_used_count": 0},
        {"attention.causal": True, "tensor_data_layout": "Meta AI original pth"},
        {"attention.value_length": 16, "rope.dimension_count": 16},
    ],
)
def test_keys_that_say_nothing_leave_no_trace(keys: dict[str, Any]) -> None:
    assert config_of(keys) == config_of({})


@pytest.mark.parametrize(
    "keys",
    [
        {"block_count": None},
        {"block_count": 0},
        {"block_count": "two"},
        {"block_count": True},
        {"block_count": 1 << 40},
        {"embedding_length": -64},
        {"attention.head_count": []},
        {"attention.head_count_kv": [2, "x"]},
        {"attention.head_count": 2.0},
        {"attention.key_length": 0},
        {"attention.layer_norm_rms_epsilon": float("nan")},
        {"attention.layer_norm_rms_epsilon": None},
        {"rope.freq_base": float("inf")},
        {"rope.freq_base": "10000"},
        {"rope.dimension_count": -1},
        {"rope.scaling.type": 3},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": -1.0},
        {"attention.sliding_window_pattern": [True, True]},
        {"attention.sliding_window_pattern": "all"},
    ],
    ids=repr,
)
def test_impossible_values_are_refused_by_key(keys: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile) as error:
        config_of(keys)
    assert f"llama.{list(keys)[-1]}" in str(error.value)


@pytest.mark.parametrize("architecture", FAMILIES)
def test_no_key_fails_by_its_type(architecture: str) -> None:
    """Whatever stands there, or nothing: a config comes out or the file is refused."""
    for key in {**FAMILIES[architecture].keys, "block_count": "", "attention.head_count": ""}:
        for value in ("x", [1, 2], [], float("nan"), 0, True, None):
            with contextlib.suppress(CorruptFile):
                config_of({key: value}, architecture=architecture)


def test_a_missing_key_of_a_family_is_named() -> None:
    with pytest.raises(CorruptFile, match=r"mamba2\.ssm\.inner_size is missing"):
        config_of({"ssm.time_step_rank": 4}, architecture="mamba2")


def test_gemma3_spelling() -> None:
    config = config_of({"attention.sliding_window": 512, "rope.freq_base_swa": 10000.0}, architecture="gemma3")
    assert config["model_type"] == "gemma3_text"
    assert config["sliding_window"] == 512
    assert config["rope_local_base_freq"] == 10000.0
    assert "sliding_window_pattern" not in config


def test_gemma3_without_a_window_has_full_attention_everywhere() -> None:
    assert config_of({}, architecture="gemma3")["sliding_window_pattern"] == 1


def test_unknown_architecture_keeps_its_name() -> None:
    config = config_of({"strange": 1, "block_count": None}, architecture="new")
    assert config["model_type"] == "new"
    assert config["new.strange"] == 1
    assert config["hidden_size"] == 64
