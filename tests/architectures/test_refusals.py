"""A checkpoint that is not what its architecture expects: a variant is told from a damaged file."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ferrule import architectures
from ferrule.checkpoint import open_checkpoint
from ferrule.errors import CorruptFile, UnsupportedArchitecture


def test_a_variant_is_named_by_its_config_keys(tiny_model: Callable[..., Path]) -> None:
    """A mixture of experts that calls itself a Llama lacks Llama's FFN, but that is not what is wrong with it."""
    checkpoint = open_checkpoint(tiny_model("mixtral"))
    config = {**checkpoint.config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    with pytest.raises(UnsupportedArchitecture, match="not understood: num_experts_per_tok, num_local_experts"):
        architectures.record(dataclasses.replace(checkpoint, config=config))


@pytest.mark.parametrize("variant", ["llama3", "gemma2", "mixtral", "mamba2", "falcon_7b", "deepseek_v3"])
def test_a_missing_tensor_is_named(tiny_model: Callable[..., Path], variant: str) -> None:
    checkpoint = open_checkpoint(tiny_model(variant))
    in_layers = [name for name in checkpoint.tensors if ".1." in name and "bias" not in name]
    for missing in (in_layers[0], in_layers[-1]):
        tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != missing}
        with pytest.raises(CorruptFile, match="a tensor is missing") as error:
            architectures.record(dataclasses.replace(checkpoint, tensors=tensors))
        assert error.value.tensor == missing


def test_a_missing_head_is_not_replaced_by_the_embedding(tiny_model: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(tiny_model("llama3"))
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != "lm_head.weight"}
    with pytest.raises(CorruptFile, match=r"lm_head\.weight"):
        architectures.record(dataclasses.replace(checkpoint, tensors=tensors))
