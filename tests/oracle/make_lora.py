"""Makes tests/data/lora: descriptions of LoRA adapters of tiny models and what PEFT computes with them.

    PYTHONPATH=tests python tests/oracle/make_lora.py [--only llama3-all] [--work DIRECTORY]

Needs torch, transformers and peft (CPU). As in `make_tiny.py`, PEFT reads back what `tiny_adapters.build` made. PEFT
cannot read adapters with factors for each expert, of transformers 4, into today's fused experts: those are merged into
the weights instead.
"""

import argparse
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import peft
import torch
from make_tiny import SMALLEST_GAP, folded, gaps, greedy, load, logits, short
from safetensors.torch import load_file
from variants import VARIANTS

import tiny_adapters
import tiny_models

ATTENTION, FFN = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]
# Name -> tiny model, options of LoraConfig.
ADAPTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama3-all": ("llama3", {"target_modules": ATTENTION + FFN}),
    "llama3-rslora": ("llama3", {"target_modules": ATTENTION, "use_rslora": True}),
    "llama3-patterns": (
        "llama3",
        {
            "target_modules": [*ATTENTION, "down_proj"],
            "rank_pattern": {"q_proj": 3, "layers.1.mlp.down_proj": 1},
            "alpha_pattern": {"v_proj": 20},
        },
    ),
    "llama3_2_tied-head": ("llama3_2_tied", {"target_modules": [*ATTENTION, "lm_head"]}),
    "llama_bias-dora": (
        "llama_bias",
        {"target_modules": [*ATTENTION, "up_proj"], "use_dora": True, "modules_to_save": ["lm_head"]},
    ),
    "deepseek_v3-dora": ("deepseek_v3", {"target_modules": ["kv_b_proj", "q_b_proj"], "use_dora": True}),
    "gpt2-conv1d": ("gpt2", {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "bloom-grouped": ("bloom", {"target_modules": ["query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]}),
    "phi3-fused": ("phi3", {"target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}),
    "gemma3_text-embedding": ("gemma3_text", {"target_modules": ["embed_tokens", "v_proj"]}),
    "gemma3_mm-tower": ("gemma3_mm", {"target_modules": r".*language_model.*\.(q_proj|o_proj|up_proj)"}),
    "deepseek_v3-latent": (
        "deepseek_v3",
        {"target_modules": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]},
    ),
    # The FFN's matrices are today's fused experts, whose factors PEFT stacks.
    "qwen3_moe-fused": ("qwen3_moe", {"target_modules": [*ATTENTION, *FFN]}),
    "deepseek_v3-fused": ("deepseek_v3", {"target_modules": ["o_proj"], "target_parameters": ["experts.down_proj"]}),
    "qwen3_moe-experts": ("qwen3_moe", {"target_modules": ATTENTION}),
}
DTYPES = {"llama3-rslora": "bf16", "llama3-patterns": "f16"}
KEPT = ["peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "fan_in_fan_out", "bias"]
KEPT += ["use_dora", "modules_to_save", "target_modules", "target_parameters", "task_type"]
GAIN = 0.12  # deviation of B, so that logits move by about as much as they spread
SEEDS = 60


def skeleton(
    variant: str, options: dict[str, Any], work: Path, *, of_experts: bool
) -> tuple[dict[str, Any], dict[str, tiny_models.Recipe]]:
    """PEFT's config; shape and distribution of every factor that it saves and, with `of_experts`, of each expert's."""
    config = peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **options)
    model = peft.get_peft_model(load(tiny_models.build(variant, work / "model"), VARIANTS[variant]), config)
    shutil.rmtree(work / "adapter", ignore_errors=True)
    model.save_pretrained(work / "adapter", save_embedding_layers=False)
    saved = json.loads((work / "adapter" / "adapter_config.json").read_text())
    saved |= {
        key: sorted(value) for key, value in saved.items() if key.startswith("target_") and isinstance(value, list)
    }
    tensors = load_file(work / "adapter" / "adapter_model.safetensors")
    shapes = {
        name: list(tensor.shape) for name, tensor in tensors.items() if re.search(r"\.lora_(embedding_)?[AB]", name)
    }
    if of_experts:
        for name, (_, matrix) in tiny_models.weights(variant):
            if ".experts." in name:
                n_out, n_in = matrix.shape
                key = f"base_model.model.{name.removesuffix('.weight')}"
                shapes |= {f"{key}.lora_A.weight": [config.r, n_in], f"{key}.lora_B.weight": [n_out, config.r]}
    made: dict[str, tiny_models.Recipe] = {
        name: (shape, "normal", 0, short(deviation(name, shape))) for name, shape in shapes.items()
    }
    for name in sorted(tensors.keys() - made.keys()):  # magnitudes, and tensors that replace the model's
        mean = short(tensors[name].mean().item()) if "magnitude" in name else 0
        spread = short(0.2 * mean if mean else tensors[name].std().item())
        made[name] = (list(tensors[name].shape), "normal", mean, spread)
    return {key: saved[key] for key in KEPT if saved[key]}, made


def deviation(name: str, shape: list[int]) -> float:
    """Of a factor's values: A keeps the size of its input, of which an embedding has one."""
    if name.endswith(("_B", "_B.weight")):
        return GAIN
    return 1 if name.endswith("embedding_A") else 1 / math.sqrt(shape[1])


def adapted(name: str, variant: str, work: Path) -> torch.nn.Module:
    """The tiny model with the adapter that `tiny_adapters` builds."""
    shutil.rmtree(work / "adapter", ignore_errors=True)
    directory = tiny_adapters.build(name, work / "adapter")
    model = load(tiny_models.build(variant, work / "model"), VARIANTS[variant])
    about = tiny_adapters.description(name)
    factors = {
        key.removeprefix("base_model.model."): torch.from_numpy(array)
        for key, (_, array) in tiny_adapters.tensors(name, {**about, "dtype": "f32"})
    }
    for key, a in factors.items():
        module, is_a, _ = key.partition(".lora_A.weight")
        if re.search(r"\.experts\.\d", key) and is_a:
            delta = factors[f"{module}.lora_B.weight"] @ a * about["config"]["lora_alpha"] / about["config"]["r"]
            experts, number, part = module.rsplit(".", 2)
            fused = model.get_submodule(experts)
            matrix = fused.down_proj if part == "down_proj" else fused.gate_up_proj
            begin = len(delta) * (part == "up_proj")
            matrix.data[int(number), begin : begin + len(delta)] += delta
    return peft.PeftModel.from_pretrained(model, directory).eval()


@torch.no_grad()
def make(name: str, work: Path) -> str:
    """Writes the description and goldens of one adapter; returns a line about them."""
    variant, options = ADAPTERS[name]
    config, factors = skeleton(variant, options, work, of_experts=name.endswith("-experts"))
    about = {
        "variant": variant,
        "seed": 0,
        "dtype": DTYPES.get(name, "f32"),
        "config": config,
        "tensors": folded(factors),
    }
    for seed in range(SEEDS):
        save(name, about | {"seed": seed})
        model = adapted(name, variant, work)
        arrays, gap, shift = {}, math.inf, 0.0
        for n in tiny_adapters.LENGTHS:
            base = tiny_models.golden(variant).prompts[n]
            ids = torch.from_numpy(base.ids).long()[None]
            tokens, steps = greedy(model, ids)
            gap = min(gap, gaps(steps).item())
            arrays[f"logits_{n}"] = logits(model, ids)[0, -2:].numpy()
            arrays[f"greedy_{n}"] = tokens[0].int().numpy()
            shift = max(shift, float(np.abs(arrays[f"logits_{n}"][-1] - base.logits[-1]).max()))
        if gap > SMALLEST_GAP:
            break
    else:
        raise ValueError(f"{name}: no seed gives clear greedy tokens")
    np.savez_compressed(tiny_adapters.DATA / f"{name}.npz", **arrays)
    return f"{name:22s} seed={seed} gap={gap:.3f} logits move by {shift:.1f}"


def save(name: str, about: dict[str, Any]) -> None:
    """Writes the JSON file, a line per tensor."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in about["tensors"].items()]
    text = json.dumps({**about, "tensors": None}, indent=1)
    text = text.replace('"tensors": null', '"tensors": {\n' + ",\n".join(lines) + "\n }")
    (tiny_adapters.DATA / f"{name}.json").write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated adapters, by default all")
    parser.add_argument("--work", type=Path, default=Path("/tmp/ferrule-oracle"), help="scratch directory")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only.split(",") if arguments.only else ADAPTERS:
        print(make(name, arguments.work), flush=True)


if __name__ == "__main__":
    main()
