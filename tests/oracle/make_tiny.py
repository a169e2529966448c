"""Makes tests/data/tiny: descriptions of the tiny checkpoints and the goldens transformers computes from them.

    PYTHONPATH=tests python tests/oracle/make_tiny.py [--only llama2,qwen3] [--work DIRECTORY]

Needs torch and transformers (CPU). The checkpoint that transformers loads is the one the tests build: this script only
chooses the distribution of every tensor, writes the description, and then reads back what `tiny_models.build` made.

Goldens are float32, with eager attention unless a variant says otherwise: logits of the prompts without a cache, and
greedy decoding by `generate()` with the model's own cache. Distributions are chosen so that a mistake shows: logits
spread by about 4, decisive attention, norms away from their neutral value, greedy tokens that vary and win by a clear
gap.
"""

import argparse
import itertools
import json
import math
import re
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from variants import VARIANTS, Variant

import tiny_models

TOKEN_IDS = {
    "qwen": {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 3},
    "gpt2": {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 3},
    "llama": {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0},
    "gemma": {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0},
}
FIRST_ID, LAST_ID = 4, 370  # prompts use neither special nor multimodal placeholder tokens
PLACEHOLDER_ID = 376
LOGIT_DEVIATION = 4.0
GENERATED = 16
CANDIDATES = 24
SMALLEST_GAP = 0.03
SEEDS = 40
FEWEST_DISTINCT = 4
LARGEST_ERROR = 5e-4
# Window edges (16) and the original length of scaled ropes (32) lie between stored positions.
POSITIONS = {1: [0], 7: list(range(7)), 40: [0, 1, 7, 14, 15, 16, 17, 23, 31, 32, 38, 39]}
STEPS = {1: [1, 15], 7: [1, 15], 40: [1, 2, 4, 8, 15]}
FINAL_NORMS = (
    "model.norm.weight",
    "language_model.norm.weight",
    "final_layernorm.weight",
    "ln_f.weight",
    "norm_f.weight",
    "embedding_norm.weight",
)
ONE_PLUS_NORM = ("gemma", "gemma2", "gemma3", "gemma3_text")


def model_class(spec: Variant) -> type:
    if spec.model_class:
        return getattr(transformers, spec.model_class)
    names = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(spec.model_type, "Mistral4ForCausalLM")
    return getattr(transformers, names if isinstance(names, str) else names[0])


def skeleton(spec: Variant, directory: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor], dict[str, str]]:
    """The config, the freshly initialised tensors as transformers saves them, and which of them are
    the "embedding" and the "head" (absent when tied)."""
    config = CONFIG_MAPPING[spec.model_type](**json.loads(json.dumps(spec.config)))
    for key, value in TOKEN_IDS[spec.tokenizer].items():
        setattr(config.get_text_config(), key, value)
    torch.manual_seed(0)
    model = model_class(spec)(config).float().eval()
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory)
    tensors = load_file(directory / "model.safetensors")
    roles = {}
    for role, module in (("embedding", model.get_input_embeddings()), ("head", model.get_output_embeddings())):
        for name, tensor in tensors.items():
            if module is not None and name not in roles.values() and torch.equal(tensor, module.weight):
                roles[role] = name
    if model.get_output_embeddings() is None or (
        model.get_output_embeddings().weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()
    ):
        roles.pop("head", None)
    for pattern, name in spec.renames.items():
        tensors = {re.sub(pattern, name, key): tensor for key, tensor in tensors.items()}
    return json.loads((directory / "config.json").read_text()), tensors, roles


def recipe(name: str, tensor: torch.Tensor, role: str | None, tied: bool, spec: Variant) -> tiny_models.Recipe:
    """Shape, kind, mean and deviation of one tensor, from its name and its initial value."""
    shape = list(tensor.shape)
    last = name.split(".")[-1]
    mean = tensor.float().mean().item()
    spread = tensor.float().std(correction=0).item()

    def normal(mean: float, deviation: float) -> tiny_models.Recipe:
        gain = math.prod(value for key, value in spec.gains.items() if key in name)
        return shape, "normal", mean, deviation * gain

    if role == "embedding":
        return normal(0, 0.6)
    if role == "head":
        return normal(0, LOGIT_DEVIATION / math.sqrt(shape[-1]))
    if last == "layer_scalar":
        return normal(0.75, 0.15)
    if last in ("A_log", "D", "dt_bias"):
        return normal(mean, math.hypot(spread, 0.05))
    if "sinks" in last:
        return normal(0, 1)
    if "correction_bias" in name or "expert_bias" in last:
        return normal(0, 0.08)
    if "per_expert_scale" in last or name.endswith("router.scale"):
        return normal(1, 0.2)
    if "conv1d.weight" in name or "conv.conv.weight" in name:
        return normal(0, 0.5)
    if last.endswith("bias") and len(shape) == 1:
        return normal(mean if "dt" in name else 0, math.hypot(spread if "dt" in name else 0, 0.15))
    if len(shape) <= 1 or (len(shape) == 2 and "norm" in name):
        if re.search("(q|k|query|key)_(layer)?norm", name):
            return normal(0.45, 0.1) if spec.model_type.startswith("gemma4") else normal(mean + 0.4, 0.2)
        if tied and name.endswith(FINAL_NORMS) and not re.search("layers|vision", name):
            # Without random signs a tied model only repeats its last token.
            return shape, "flipped_plus_one" if spec.model_type in ONE_PLUS_NORM else "flipped", mean, 0.2
        return normal(mean, math.hypot(spread, 0.2))
    return normal(0, matrix_deviation(name, shape, spec.model_type))


def matrix_deviation(name: str, shape: list[int], model_type: str) -> float:
    """1/sqrt(inputs), more for attention inputs and routers, so that attention and routing are decisive."""
    if "per_layer" in name and "embed" in name:
        return 0.5
    if "wpe" in name or "embed_positions" in name:
        return 0.5
    inputs = shape[-1]
    if len(shape) == 3 and model_type in ("gpt_oss", "llama4_text") and "experts" in name:
        inputs = shape[1]
    if model_type == "gpt2":
        inputs = shape[0]
    gain = 1.0
    if re.search("[qk]_proj|query_key_value|qkv|c_attn|wq|q_b_proj", name):
        gain = 1.4
    if "gate.weight" in name or "router" in name:
        gain = 2.0
    return gain / math.sqrt(inputs)


def recipes(spec: Variant, tensors: dict[str, torch.Tensor], roles: dict[str, str]) -> dict[str, tiny_models.Recipe]:
    role_of = {name: role for role, name in roles.items()}
    made = {}
    for name, tensor in tensors.items():
        if spec.mxfp4 and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, inputs, outputs = tensor.shape
            made[f"{name}_blocks"] = ([experts, outputs, inputs // 32, 16], "bytes", 0, 255)
            # Codes of four bits spread by 2.9; the exponent's bias is 127.
            exponent = 127 + round(math.log2(spec.gains.get("gate_up_proj", 1) ** ("gate_up" in name) / 2.9 / 8))
            made[f"{name}_scales"] = ([experts, outputs, inputs // 32], "bytes", exponent - 1, exponent)
        else:
            made[name] = recipe(name, tensor, role_of.get(name), "head" not in roles, spec)
    return {name: (shape, kind, short(mean), short(deviation)) for name, (shape, kind, mean, deviation) in made.items()}


def short(x: float) -> float | int:
    """`x` with five digits, so that descriptions stay readable."""
    x = float(f"{x:.5g}")
    return int(x) if x == int(x) else x


def folded(made: dict[str, tiny_models.Recipe]) -> dict[str, tiny_models.Recipe]:
    """Names that differ in indices only and share a recipe become one pattern (see `tiny_models.expand`)."""
    groups: dict[tuple[str, str], list[list[int]]] = defaultdict(list)
    for name, value in made.items():
        template = re.sub(r"(?<=\.)\d+(?=\.)", "{}", name)
        groups[template, json.dumps(value)].append([int(index) for index in re.findall(r"(?<=\.)\d+(?=\.)", name)])
    result = {}
    for (template, value), indices in groups.items():
        columns = [sorted(set(column)) for column in zip(*indices, strict=True)]
        if sorted(indices) == [list(row) for row in itertools.product(*columns)]:
            rows = [[ranges(column) for column in columns]]
        else:
            rows = [[ranges([index]) for index in row] for row in indices]
        for row in rows:
            result[template.format(*row)] = json.loads(value)
    return result


def ranges(indices: list[int]) -> str:
    """ "{0-2,5}" for [0, 1, 2, 5]; a single index stands without braces."""
    if len(indices) == 1:
        return str(indices[0])
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], index]
        else:
            runs.append([index])
    return "{" + ",".join("-".join(map(str, run)) for run in runs) + "}"


def save_description(variant: str, about: dict[str, Any]) -> None:
    """Writes the JSON file, a line per tensor."""
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in about["tensors"].items()]
    text = json.dumps({**about, "tensors": None}, indent=1)
    text = text.replace('"tensors": null', '"tensors": {\n' + ",\n".join(lines) + "\n }")
    (tiny_models.DATA / f"{variant}.json").write_text(text + "\n")
    tiny_models.description.cache_clear()


def load(directory: Path, spec: Variant) -> torch.nn.Module:
    """The checkpoint as a float32 model; every tensor of the file and of the model must have found the other."""
    model, info = model_class(spec).from_pretrained(
        directory, dtype=torch.float32, attn_implementation=spec.attention, output_loading_info=True
    )
    problems = {key: sorted(value) for key, value in info.items() if value}
    if problems:
        raise ValueError(f"{directory}: {problems}")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model.eval()


def reset_rope(model: torch.nn.Module) -> None:
    """Dynamic ropes keep the frequencies of the longest input they have seen."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "inv_freq"):
            module.register_buffer("inv_freq", module.original_inv_freq.clone(), persistent=False)
            if hasattr(module, "original_max_seq_len"):
                module.max_seq_len_cached = module.original_max_seq_len


def logits(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    reset_rope(model)
    return model(input_ids=ids, use_cache=False).logits.float()


def greedy(model: torch.nn.Module, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [batch, GENERATED] and their logits [batch, GENERATED, vocabulary] by `generate()` with its cache."""
    model.generation_config = transformers.GenerationConfig(eos_token_id=None, pad_token_id=0)
    options = transformers.GenerationConfig(
        max_new_tokens=GENERATED,
        do_sample=False,
        use_cache=True,
        eos_token_id=None,
        pad_token_id=0,
        bos_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    reset_rope(model)
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=options)
    return out.sequences[:, ids.shape[1] :], torch.stack([step.float() for step in out.logits], 1)


def gaps(step_logits: torch.Tensor) -> torch.Tensor:
    """The smallest lead of the best token over the second, per row."""
    best = step_logits.topk(2, -1).values
    return (best[..., 0] - best[..., 1]).amin(-1)


def prompt_golden(model: torch.nn.Module, length: int) -> tuple[dict[str, np.ndarray], float, int]:
    """Goldens for the best of some random prompts, with its smallest gap and number of distinct tokens."""
    random = np.random.default_rng(100 + length)
    ids = torch.from_numpy(random.integers(FIRST_ID, LAST_ID, (CANDIDATES, length)))
    sequences, step_logits = greedy(model, ids)
    score = gaps(step_logits).clamp(max=0.25) - 1.0 * (gaps(step_logits) < 2 * SMALLEST_GAP)
    score += 0.02 * torch.tensor([len(set(row.tolist())) for row in sequences])
    score -= 10.0 * (sequences >= PLACEHOLDER_ID).any(1)
    ids = ids[int(score.argmax())][None]
    tokens, step_logits = greedy(model, ids)
    arrays = {
        "ids": ids[0].int().numpy(),
        "positions": np.array(POSITIONS[length], np.int32),
        "logits": logits(model, ids)[0, POSITIONS[length]].numpy(),
        "greedy": tokens[0].int().numpy(),
        "steps": np.array(STEPS[length], np.int32),
        "step_logits": step_logits[0, STEPS[length]].numpy(),
    }
    return (
        {f"{key}_{length}": value for key, value in arrays.items()},
        gaps(step_logits).item(),
        len(set(tokens[0].tolist())),
    )


def rounding_error(model: torch.nn.Module, arrays: dict[str, np.ndarray]) -> float:
    """How far the float32 logits are from float64 ones: much, where a router or a selection is undecided."""
    worst = 0.0
    for length in tiny_models.PROMPT_LENGTHS:
        ids = torch.from_numpy(np.concatenate([arrays[f"ids_{length}"], arrays[f"greedy_{length}"][:-1]])).long()[None]
        single = logits(model, ids)
        torch.set_default_dtype(torch.float64)
        double = model.double()(input_ids=ids, use_cache=False).logits
        torch.set_default_dtype(torch.float32)
        model.float()
        worst = max(worst, (single - double).abs().max().item())
    return worst


def mrope_golden(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """A text prompt whose time, height and width positions differ, as those of an image do."""
    ids = np.random.default_rng(9).integers(FIRST_ID, LAST_ID, 12).astype(np.int32)
    positions = np.array(
        [range(12), [0, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6, 7], [0, 1, 2, 3, 2, 3, 2, 3, 4, 5, 6, 7]], np.int32
    )
    out = model(
        input_ids=torch.from_numpy(ids).long()[None],
        position_ids=torch.from_numpy(positions).long()[:, None],
        use_cache=False,
    )
    return {"mrope_ids": ids, "mrope_positions": positions, "mrope_logits": out.logits[0].float().numpy()}


def scaled_model(variant: str, spec: Variant, about: dict[str, Any], roles: dict[str, str], directory: Path) -> Any:
    """Scales the head, or the tied embedding, until the logits spread as wanted; returns the last model loaded."""
    probe = torch.from_numpy(np.random.default_rng(5).integers(FIRST_ID, LAST_ID, (2, 24)))
    tied = "head" not in roles
    scaled = [roles["embedding"]] if tied else [roles["head"], roles["head"].replace(".weight", ".bias")]
    for _ in range(7):
        save_description(variant, about)
        model = load(tiny_models.build(variant, directory), spec)
        factor = LOGIT_DEVIATION / logits(model, probe).std().item()
        if 1 / 1.3 < factor < 1 / 0.8 if tied else abs(factor - 1) < 0.02:
            break
        factor = min(max(factor, 0.3), 3.0) if tied else factor
        for name in scaled:
            if name in about["tensors"]:
                shape, kind, mean, deviation = about["tensors"][name]
                about["tensors"][name] = (shape, kind, mean, short(deviation * factor))
    return model


def check_forms(variant: str, spec: Variant, arrays: dict[str, np.ndarray], directory: Path) -> None:
    """Every dtype and form of the checkpoint gives the same golden."""
    ids = torch.from_numpy(arrays["ids_40"]).long()[None]
    builds = [{"dtype": dtype} for dtype in ("f32", "bf16", "f16") if dtype != spec.dtype]
    builds += [{"form": "legacy"}] if spec.legacy else []
    builds += [{"shards": 3}] if spec.shards == 1 else [{"shards": 1}]
    for options in builds:
        shutil.rmtree(directory)
        model = load(tiny_models.build(variant, directory, **options), spec)
        difference = np.abs(logits(model, ids)[0, POSITIONS[40]].numpy() - arrays["logits_40"]).max()
        if difference > 1e-5:
            raise ValueError(f"{variant} with {options}: logits differ by {difference:.2g}")


@torch.no_grad()
def make(variant: str, work: Path) -> str:
    """Writes the description and goldens of one variant; returns a line about them."""
    spec = VARIANTS[variant]
    config, tensors, roles = skeleton(spec, work / "skeleton")
    if spec.mxfp4:
        config["quantization_config"] = {
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
        }
    config = tiny_models.with_dtype(config, spec.dtype)
    about: dict[str, Any] = {
        "note": spec.note,
        "tokenizer": spec.tokenizer,
        "dtype": spec.dtype,
        "shards": spec.shards,
        "tied": "head" not in roles,
        "seed": 0,
        "weights_sha256": None,
        "config": config,
        "legacy_config": spec.legacy(config) if spec.legacy else None,
        "generation_config": TOKEN_IDS[spec.tokenizer] | {"do_sample": False},
        "tensors": folded(recipes(spec, tensors, roles)),
    }
    start = dict(about["tensors"])
    for seed in range(SEEDS):
        about |= {"seed": seed, "tensors": dict(start)}
        model = scaled_model(variant, spec, about, roles, work / "model")
        results = [prompt_golden(model, length) for length in tiny_models.PROMPT_LENGTHS]
        gap, distinct = min(result[1] for result in results), min(result[2] for result in results)
        arrays = {key: value for result in results for key, value in result[0].items()}
        error = rounding_error(model, arrays)
        if gap > SMALLEST_GAP and distinct >= FEWEST_DISTINCT and error < LARGEST_ERROR:
            break
    else:
        raise ValueError(
            f"{variant}: no seed gives clear and varied greedy tokens (gap {gap:.3f}, {distinct} distinct)"
        )
    if "mrope" in json.dumps(config):
        arrays |= mrope_golden(model)
    check_forms(variant, spec, arrays, work / "model")
    np.savez_compressed(tiny_models.DATA / f"{variant}.npz", **arrays)
    save_description(variant, about | {"weights_sha256": tiny_models.fingerprint(variant)})
    deviation = arrays["logits_40"].std()
    return f"{variant:22s} tied={about['tied']} seed={seed} std={deviation:.2f} gap={gap:.3f} distinct={distinct}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated variants, by default all")
    parser.add_argument("--work", type=Path, default=Path("/tmp/ferrule-oracle"), help="scratch directory")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for variant in arguments.only.split(",") if arguments.only else VARIANTS:
        begin = time.time()
        print(make(variant, arguments.work), f"{time.time() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
