"""Compiles single kernels of .metal files to PTX: translated as for the host, then by clang's NVPTX target."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "metal_cuda"
sys.path.append(str(ROOT / "tests" / "metal_host" / "tools"))

from declarations import FunctionConstant, Instantiation, Kernel, Parameter  # noqa: E402
from translate import translate  # noqa: E402

CLANG = "clang++-19"
ENTRY = "metal_kernel"  # the name of every compiled kernel
_KERNEL_NAME = re.compile(r'host_name\("(\w+)"\)|^kernel void (\w+)\(', re.M)
_CONSTANT = re.compile(r"(\w+) \[\[function_constant\(.*\)\]\];")
_OPTIONS = [
    *("-x", "c++", "-std=c++20", "--target=nvptx64-nvidia-cuda", "-march=sm_80", "-ffreestanding", "-S", "-O3"),
    *("-include", str(HERE / "include" / "metal_cuda" / "metal.h"), "-gline-tables-only", "-fno-exceptions"),
    *("-Xclang", "-cl-single-precision-constant", "-ffp-contract=off", "-fno-math-errno"),
    *("-flax-vector-conversions=none", "-Wall", "-Wextra", "-Werror", "-Wno-duplicate-decl-specifier"),
    *("-Wno-unused-function", "-Wno-unused-const-variable", "-Wno-pass-failed"),
    # Arrays live in registers only where loops over them are unrolled and functions that get them are inlined.
    *("-mllvm", "-unroll-threshold=3000", "-mllvm", "-inline-threshold=10000"),
]


class Compiler:
    """Keeps what it compiles in `directory`, under a name made from all sources that there are."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = {
            name: path
            for path in [*(ROOT / "metal").glob("*.metal"), *HERE.glob("*.metal")]
            for names in _KERNEL_NAME.findall(path.read_text())
            for name in names
        }
        self._state = hashlib.sha256()
        for folder in ("metal", "csrc/params", "csrc/formats", "tests/metal_host", "tests/metal_cuda"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix in (".metal", ".h", ".py"):
                    self._state.update(path.read_bytes())

    def constants(self, kernel: str) -> set[str]:
        """Names of the function constants that the kernel may use."""
        sources = [self._files[kernel], *(ROOT / "metal").glob("*.h")]
        return {name for source in sources for name in _CONSTANT.findall(source.read_text())}

    def ptx(self, kernel: str, constants: Mapping[str, float]) -> bytes:
        """The kernel with the given function constants, by name; others are 0. Raises CalledProcessError."""
        state = self._state.copy()
        state.update(repr((kernel, sorted(constants.items()))).encode())
        ptx = self._directory / f"{kernel}-{state.hexdigest()[:16]}.ptx"
        if not ptx.exists():
            source, new = ptx.with_suffix(f".{os.getpid()}.cpp"), ptx.with_suffix(f".{os.getpid()}.new")
            source.write_text(
                translate(self._files[kernel], values=constants, table=lambda *parts: _entry(kernel, *parts))
            )
            libdevice = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(_libdevice())]
            subprocess.run([CLANG, *_OPTIONS, *libdevice, source, "-o", new], check=True)
            new.rename(ptx)  # test processes may run side by side
            source.unlink()
        return ptx.read_bytes()


def _libdevice() -> Path:
    """NVIDIA's library of mathematical functions."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    return toolkit / "nvvm" / "libdevice" / "libdevice.10.bc"


def _entry(
    name: str,
    _stem: str,
    kernels: list[Kernel],
    instantiations: list[Instantiation],
    _constants: list[FunctionConstant],
) -> Iterator[str]:
    """The function that the GPU starts: it hands its only argument on to the kernel as Metal would."""
    functions = {kernel.name: (kernel.name, kernel) for kernel in kernels if not kernel.is_template}
    definitions = {kernel.name: kernel for kernel in kernels}
    for instantiation in instantiations:
        function = f"{instantiation.kernel}<{instantiation.arguments}>"
        functions[instantiation.host_name] = (function, definitions[instantiation.kernel])
    function, kernel = functions[name]
    values = [_value(f"Function::argument<{i}>", parameter) for i, parameter in enumerate(kernel.parameters)]
    yield f"using Function = ::metal_host::Function<decltype(&::{function})>;"
    yield f'extern "C" __attribute__((nvptx_kernel)) void {ENTRY}(::metal_cuda::Arguments arguments) {{'
    yield f"    ::{function}({', '.join(values)});"
    yield "}"


def _value(argument: str, parameter: Parameter) -> str:
    match parameter.kind:
        case "buffer":
            return f"::metal_cuda::buffer<{argument}, int({parameter.index})>(arguments)"
        case "threadgroup":
            return f"::metal_cuda::shared<{argument}, int({parameter.index})>()"
    return f"::metal_host::position<{argument}>(::metal_cuda::{parameter.kind}())"
