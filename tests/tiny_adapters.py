"""LoRA adapters of tiny models, rebuilt from a seed, with float32 golden outputs.

`tests/data/lora/<name>.json` gives the tiny model, PEFT's config and, for every factor, its shape and distribution;
`<name>.npz` what PEFT and transformers compute in float32 (see `tests/oracle/make_lora.py`).
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

import tiny_models

DATA = Path(__file__).parent / "data" / "lora"
LENGTHS = (7, 40)


@dataclass(frozen=True)
class AdapterGolden:
    """For a prompt of the tiny model: logits of its last positions, float32 [n, vocabulary], and 16 greedy tokens."""

    ids: np.ndarray
    logits: np.ndarray
    greedy: np.ndarray


def names() -> list[str]:
    """Names of all adapters."""
    return sorted(path.stem for path in DATA.glob("*.json"))


def description(name: str) -> dict[str, Any]:
    """The content of the adapter's JSON file."""
    return json.loads((DATA / f"{name}.json").read_text())


def goldens(name: str) -> list[AdapterGolden]:
    """One for each of the prompts of 7 and 40 tokens."""
    prompts = tiny_models.golden(description(name)["variant"]).prompts
    with np.load(DATA / f"{name}.npz") as arrays:
        return [AdapterGolden(prompts[n].ids, arrays[f"logits_{n}"], arrays[f"greedy_{n}"]) for n in LENGTHS]


def build(name: str, directory: Path) -> Path:
    """Writes the adapter as PEFT saves it into `directory`, made if missing, and returns it."""
    about = description(name)
    directory.mkdir(parents=True, exist_ok=True)
    tiny_models.write_json(directory / "adapter_config.json", about["config"])
    tiny_models.write_safetensors(directory / "adapter_model.safetensors", dict(tensors(name, about)))
    return directory


def tensors(name: str, about: dict[str, Any]) -> Any:
    """As `tiny_models.weights`, of an adapter's description."""
    return tiny_models.generate(name, about["seed"], about["tensors"], about["dtype"])


GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v"}
GGUF_NAMES |= {"self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up"}
GGUF_NAMES |= {"mlp.down_proj": "ffn_down", "mlp.experts.gate_proj": "ffn_gate_exps"}
GGUF_NAMES |= {"mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps"}


def build_gguf(path: Path, name: str = "llama3-all", *, architecture: str = "llama", kind: str = "lora") -> Path:
    """The adapter as llama.cpp's converter writes it, A in float16."""
    about = description(name)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", kind)
    writer.add_float32("adapter.lora.alpha", about["config"]["lora_alpha"])
    stacks: dict[str, list[np.ndarray]] = {}
    for key, (_, values) in tensors(name, about):
        layer, module, factor = re.search(r"layers\.(\d+)\.(.+)\.(lora_[AB])", key).groups()
        if architecture == "llama" and factor == "lora_B" and module in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = 4 if module == "self_attn.q_proj" else 2
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        module, is_expert = re.subn(r"experts\.\d+", "experts", module)
        values = values[None] if is_expert else values
        stacks.setdefault(f"blk.{layer}.{GGUF_NAMES[module]}.weight.{factor.lower()}", []).append(values)
    for key, parts in stacks.items():
        writer.add_tensor(key, np.concatenate(parts).astype(np.float16 if key.endswith("a") else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
