"""What a loaded model holds: weights once, in the file's own format, however the file lays out its experts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

import tiny_gguf
import tiny_models
from ferrule import architectures
from ferrule.checkpoint import Checkpoint, open_checkpoint, packages
from ferrule.graph import Experts, Graph, Weight

SMOLLM2 = next(p for p in packages.PACKAGES if p.name == "SmolLM2-135M-Instruct")


def is_view(weight: Weight, checkpoint: Checkpoint) -> bool:
    """Whether the weight is a part of the mapped file."""
    begin, end = weight.data.ctypes.data, weight.data.ctypes.data + weight.data.nbytes
    tensors = (tensor.data for tensor in checkpoint.tensors.values())
    return any(data.ctypes.data <= begin and end <= data.ctypes.data + data.nbytes for data in tensors)


def experts(graph: Graph) -> list[Experts]:
    """Those of expert_linear, in order."""
    return [o for op in graph.ops if op.kind == "expert_linear" for o in op.operands.values() if isinstance(o, Experts)]


@pytest.mark.parametrize("variant", tiny_models.variants())
def test_matrices_are_held_once(tiny_model: Callable[..., Path], variant: str) -> None:
    """As views of the file or, where rows are rearranged, as copies in place of them, never as both."""
    checkpoint = open_checkpoint(tiny_model(variant))
    graph = architectures.record(checkpoint).graph
    held = {(w.data.ctypes.data, w.data.nbytes) for w in graph.weights if len(w.shape) == 2}
    in_file = sum(tensor.data.nbytes for tensor in checkpoint.tensors.values())
    # Small matrices that are computed from weights, such as logarithms' exponentials, are float32.
    assert sum(size for _, size in held) <= 1.06 * in_file


# Layout of experts, variant, number of experts.
LAYOUTS = [
    ("a tensor for each expert", "qwen3_moe", 8),
    ("a tensor for each expert, w1 w2 w3", "mixtral", 4),
    ("one tensor, gate and up together", "gemma4_moe", 8),
    ("one tensor, gate and up together", "mistral4", 8),
]


@pytest.mark.parametrize(("layout", "variant", "count"), LAYOUTS)
def test_experts_are_views_of_the_file(tiny_model: Callable[..., Path], layout: str, variant: str, count: int) -> None:
    checkpoint = open_checkpoint(tiny_model(variant))
    found = experts(architectures.record(checkpoint).graph)
    assert found
    for each in found:
        assert len(set(each.matrices)) == count, layout
        assert each.format == "BF16"
        assert all(is_view(matrix, checkpoint) for matrix in each.matrices), layout


@pytest.mark.parametrize("variant", ["qwen3_moe", "gemma4_moe", "deepseek_v3", "mixtral"])
def test_experts_of_one_tensor_stay_quantised(tmp_path: Path, variant: str) -> None:
    source = tiny_gguf.build(variant, tmp_path / "source.gguf")
    checkpoint = open_checkpoint(
        tiny_gguf.quantised(source, tmp_path / "quantised.gguf", gguf.GGMLQuantizationType.Q8_0)
    )
    merged = [tensor for tensor in checkpoint.tensors.values() if ".experts." in tensor.name]
    assert merged
    assert {tensor.format for tensor in merged} == {"Q8_0"}
    for each in experts(architectures.record(checkpoint).graph):
        assert each.format == "Q8_0"
        assert all(is_view(matrix, checkpoint) for matrix in each.matrices)


def test_experts_of_codes_and_exponents_stay_quantised(tiny_model: Callable[..., Path]) -> None:
    graph = architectures.record(open_checkpoint(tiny_model("gpt_oss_mxfp4"))).graph
    assert {each.format for each in experts(graph)} == {"MXFP4"}


def test_every_model_type_finds_its_family() -> None:
    """Which is one family's alone, whatever order they are looked at in."""
    types = [(name, kind) for name, module in architectures.families().items() for kind in module.MODEL_TYPES]
    assert len({kind for _, kind in types}) == len(types)
    assert [(architectures.find_family({"model_type": kind}, "")[0], kind) for _, kind in types] == types


def test_only_the_family_needed_is_imported() -> None:
    source = """
import sys
from ferrule import architectures
before = set(sys.modules)
architectures.find_family({"model_type": "qwen3_moe"}, "")
print(*sorted({name.split(".")[2] for name in set(sys.modules) - before if name.startswith("ferrule.architectures.")}))
"""
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["blocks", "qwen2", "qwen_moe", "rope"]


PEAKS = """
import sys
def memory(kind):
    line = next(line for line in open("/proc/self/status") if line.startswith(kind))
    return 1024 * int(line.split()[1])
import ferrule
import ferrule.model
before = memory("VmHWM"), memory("RssAnon")
model = ferrule.load(sys.argv[1], threads=2, huge_pages=sys.argv[2] == "True")
model.runner
loaded = memory("VmHWM"), memory("RssAnon")
model.logits([1, 2, 3])
ran = memory("VmHWM")  # before the tokenizer is loaded
print(model.info()["weight_bytes"], loaded[0] - before[0], loaded[1] - before[1], ran - before[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's record of the most memory used")
@pytest.mark.parametrize("huge_pages", [False, True])
def test_loading_and_running_never_holds_the_model_twice(huge_pages: bool) -> None:
    """The most memory at any time: the weights once. Beside the mapped file, loading takes almost nothing."""
    command = [sys.executable, "-c", PEAKS, str(SMOLLM2.path(progress=False)), str(huge_pages)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    weights, load, own, run = map(int, result.stdout.split())
    assert load < 1.5 * weights  # systems map more of a file than is read
    assert huge_pages or own < 0.25 * weights
    assert run < 1.5 * weights
