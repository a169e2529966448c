"""Checks what the running form of a kernel cannot: address spaces, and what else Apple's compiler refuses.

The translated text is compiled as C++ for OpenCL, where address spaces are real; its syntax tree is searched for
pointers without one, for comparisons of vectors (which give other types than on Metal) and for pointers to functions;
the call graph is searched for recursion.

    python strict.py rms_norm.metal ...
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tokens import TranslationError
from translate import INCLUDE, translate

HOST_HEADER = INCLUDE / "metal_host" / "metal.h"
_EXTENSIONS = [
    "-cl_khr_fp64",
    "-__opencl_c_fp64",
    "-__opencl_c_pipes",
    "-__opencl_c_device_enqueue",
    "-__opencl_c_images",
    "-__opencl_c_read_write_images",
    "-__opencl_c_3d_image_writes",
    "-cl_khr_3d_image_writes",
    "+cl_khr_fp16",
]
STRICT_FLAGS = [
    *("-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-cl-single-precision-constant"),
    *("-Xclang", f"-cl-ext={','.join(_EXTENSIONS)}", "-DMETAL_HOST_STRICT", "-include", str(HOST_HEADER)),
    *("-fsyntax-only", "-Wall", "-Wextra", "-Werror"),
    *("-Wno-undefined-inline", "-Wno-undefined-internal", "-Wno-unused-function", "-Wno-pass-failed"),
]
RUN_FLAGS = [
    *("-x", "c++", "-std=c++20", "-include", str(HOST_HEADER), "-fno-exceptions", "-fno-rtti"),
    *("-Xclang", "-cl-single-precision-constant", "-flax-vector-conversions=none", "-Wno-duplicate-decl-specifier"),
]


def check(source: Path, clang: str = "clang++-19") -> list[str]:
    """What is wrong with a .metal file, one "file:line: error: ..." each."""
    try:
        text = translate(source, clang=clang)
    except TranslationError as error:
        return str(error).splitlines()
    with tempfile.TemporaryDirectory() as directory:
        translated = Path(directory) / f"{source.stem}.cpp"
        translated.write_text(text)
        errors = _compile([clang, *STRICT_FLAGS, str(translated)])
        errors = errors or _compile([clang, *RUN_FLAGS, "-fsyntax-only", str(translated)])
        if errors:
            return errors
        tree = subprocess.run(
            [clang, *STRICT_FLAGS, "-w", "-Xclang", "-ast-dump", str(translated)],
            capture_output=True,
            text=True,
            check=True,
        )
        return _search_tree(tree.stdout, source) + _find_recursion(clang, translated, source)


def _compile(command: list[str]) -> list[str]:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in result.stderr.splitlines() if ": error:" in line]
    return lines or ([result.stderr] if result.returncode else [])


_NODE = re.compile(r"^([ |`-]*)(\w+) 0x[0-9a-f]+(.*)$")
_LOCATION = re.compile(r"<([^>]*)>|\b((?:[\w./-]+|line|col):\d+(?::\d+)?)")
_PLACE = re.compile(r"(.+?):(\d+)(?::\d+)?$")
_VECTOR_TYPE = re.compile(r"ext_vector_type")


def _search_tree(tree: str, source: Path) -> list[str]:
    """Errors in a dump of the syntax tree, of which only nodes written in `source` count."""
    lines = tree.splitlines()
    file, line = "", 0
    ancestors: list[tuple[str, str]] = []
    found: set[tuple[int, str]] = set()
    for i, dumped in enumerate(lines):
        node = _NODE.match(dumped)
        if node is None:
            continue
        depth, kind, rest = len(node[1]) // 2, node[2], node[3]
        ancestors = [*ancestors[:depth], (kind, rest)]
        file, line = _locate(rest, file, line)
        if Path(file).name != source.name:
            continue
        if message := _refused(kind, rest, ancestors, lines[i + 1] if i + 1 < len(lines) else ""):
            found.add((line, message))
    return [f"{source}:{line}: error: {message}" for line, message in sorted(found)]


def _locate(rest: str, file: str, line: int) -> tuple[str, int]:
    """Dumps name the file and line of a node only where they differ from those of the node before."""
    location = _LOCATION.search(rest)
    for part in (location[1] or location[2]).split(", ") if location else []:
        place = _PLACE.match(part.strip())
        if place is None or place[1] == "col":
            continue
        line = int(place[2])
        file = file if place[1] == "line" else place[1]
    return file, line


def _refused(kind: str, rest: str, ancestors: list[tuple[str, str]], following: str) -> str:
    in_implicit_member = any(
        "implicit" in text and above in ("CXXConstructorDecl", "CXXMethodDecl", "CXXDestructorDecl")
        for above, text in ancestors
    )
    if kind in ("VarDecl", "ParmVarDecl", "FieldDecl") and re.search(r"\(\*(__private)?\)\(", rest):
        return "pointers to functions are not available"
    if kind == "BinaryOperator" and re.search(r"'(<|>|<=|>=|==|!=)'$", rest) and _VECTOR_TYPE.search(rest):
        return "comparisons of vectors are not supported here: compare components"
    if "__generic" not in rest or in_implicit_member:
        return ""
    if kind in ("VarDecl", "ParmVarDecl"):
        return "a pointer or reference needs an address space"
    is_conversion = kind == "ImplicitCastExpr" and "AddressSpaceConversion" in rest
    if is_conversion and "'__private" not in following and "'const __private" not in following:
        parents = [above for above, _ in ancestors[-4:-1]]
        if parents[-1:] == ["MemberExpr"] or "CXXMemberCallExpr" in parents:
            return "a member function is called on an object of another address space than its own"
    return ""


def _find_recursion(clang: str, translated: Path, source: Path) -> list[str]:
    command = [clang, *RUN_FLAGS, "-w", "-O0", "-S", "-emit-llvm", "-o", "-", str(translated)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    calls: dict[str, set[str]] = {}
    caller = ""
    for line in code.splitlines():
        if definition := re.match(r'define .*?@([\w.$"]+)\(', line):
            caller = definition[1]
        calls.setdefault(caller, set()).update(re.findall(r'call [^@]*@([\w.$"]+)\(', line))
    recursive = sorted(function for function in calls if function in _reached(function, calls))
    return [f"{source}: error: {function} calls itself" for function in recursive]


def _reached(function: str, calls: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    pending = [function]
    while pending:
        new = calls.get(pending.pop(), set()) - reached
        reached |= new
        pending += new
    return reached


if __name__ == "__main__":
    faults = [fault for source in sys.argv[1:] for fault in check(Path(source))]
    sys.exit("\n".join(faults) if faults else 0)
