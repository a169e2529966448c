"""Translates an unmodified .metal file into C++ that runs on the executor.

The preprocessed source keeps its text but for a few local edits, all on their own lines, so that compilers and the
executor report lines of the .metal file: attributes vanish; threadgroup variables of kernels become references to
memory of the executor; function constants are initialised from outside; vectors are constructed by function templates,
because clang's vectors have no constructors. A table of kernels with functions that hand over their arguments follows.

    python translate.py rms_norm.metal -o rms_norm.cpp --depfile rms_norm.cpp.d
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from declarations import (
    FunctionConstant,
    Instantiation,
    Kernel,
    Parameter,
    attributes,
    function_constants,
    kernels_and_instantiations,
)
from tokens import Tokens, TranslationError

INCLUDE = Path(__file__).resolve().parent.parent / "include"
_VECTOR = re.compile(r"(float|half|bfloat|char|uchar|short|ushort|int|uint|long|ulong)[234]")
_HALF_LITERAL = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[hH]")
_FORBIDDEN = {"goto", "throw", "try", "catch", "virtual", "new", "delete", "dynamic_cast", "typeid", "double", "std"}


# From a file's stem, kernels, instantiations and function constants, the lines that follow its text.
Table = Callable[[str, list[Kernel], list[Instantiation], list[FunctionConstant]], Iterator[str]]


def translate(
    source: Path,
    *,
    clang: str = "clang++-19",
    depfile: Path | None = None,
    output: str = "",
    values: Mapping[str, float] | None = None,
    table: Table | None = None,
) -> str:
    """The C++ text. Raises TranslationError.

    `values` are function constants by name, 0 where missing, for text that shall not ask for them when it is loaded;
    `table` replaces the table of kernels that the executor reads.
    """
    tokens = Tokens(_preprocess(source, clang, depfile, output))
    constants = function_constants(tokens)
    kernels, instantiations = kernels_and_instantiations(tokens)
    _refuse_forbidden(tokens)
    _check_program_scope(tokens)
    _bind_threadgroup_variables(tokens, kernels)
    _construct_vectors(tokens)
    _spell_half_literals(tokens)
    _read_function_constants(tokens, constants, values)
    for instantiation in instantiations:
        tokens.erase(instantiation.begin, instantiation.end)
    lines = "\n".join((table or _table)(source.stem, kernels, instantiations, constants))
    return f'{tokens.render()}\n# 1 "kernel table of {source.name}"\n{lines}\n'


def _preprocess(source: Path, clang: str, depfile: Path | None, output: str) -> str:
    command = [clang, "-E", "-x", "c++", "-std=c++17", "-nostdinc", "-D__METAL_VERSION__=310", f"-I{INCLUDE}"]
    if depfile is not None:
        command += ["-MD", "-MF", str(depfile), "-MT", output]
    result = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise TranslationError(result.stderr)
    return result.stdout


def _refuse_forbidden(tokens: Tokens) -> None:
    for i in range(len(tokens)):
        if tokens.text(i) in _FORBIDDEN and tokens[i].kind == "name":
            raise tokens[i].error(f"'{tokens.text(i)}' is not available in the Metal Shading Language")


def _check_program_scope(tokens: Tokens) -> None:
    """Variables outside functions are constant, those inside are not static."""
    i = start = 0
    while i < len(tokens):
        words = tokens.texts(start, i)
        match tokens.text(i):
            case "{" if "namespace" in words:
                start = i + 1
            case "{":
                if "(" in words:
                    _refuse_static(tokens, i + 1, tokens.closing(i))
                i = tokens.closing(i)
                if not {"struct", "enum", "=", "constant"} & set(words):
                    start = i + 1
            case "}":
                start = i + 1
            case "(" | "[[":
                i = tokens.closing(i)
            case ";":
                declares_variable = not {"(", "using", "typedef", "struct", "enum", "static_assert", "template"} & set(
                    words
                )
                if len(words) > 1 and declares_variable and "constant" not in words:
                    raise tokens[start].error("a variable outside functions must be in the constant address space")
                start = i + 1
        i += 1


def _refuse_static(tokens: Tokens, begin: int, end: int) -> None:
    for i in range(begin, end):
        if tokens.text(i) == "static":
            raise tokens[i].error("static variables are not available inside a function")


def _bind_threadgroup_variables(tokens: Tokens, kernels: list[Kernel]) -> None:
    """`threadgroup T name[n];` -> `threadgroup T (&name)[n] = <memory>;`"""
    for i in tokens.find("threadgroup"):
        end = i + 1
        while tokens.text(end) not in (";", "*", "&", "(", ""):
            match tokens.text(end):
                case "<":
                    end = tokens.closing_angle(end) + 1
                case "[":
                    end = tokens.closing(end) + 1
                case _:
                    end += 1
        if tokens.text(i - 1) not in ("{", "}", ";") or tokens.text(end) != ";":
            continue
        if not any(kernel.begin < i < kernel.end for kernel in kernels):
            raise tokens[i].error("threadgroup variables can only be declared in a kernel")
        for j in range(i + 1, end):
            if tokens.text(j) in ("=", "{"):
                raise tokens[j].error("threadgroup variables cannot have an initialiser")
            if tokens[j].kind == "name" and tokens.text(j + 1) in ("[", ";", ","):
                after = j + 1
                while tokens.text(after) == "[":
                    after = tokens.closing(after) + 1
                tokens.replace(j, f"(&{tokens.text(j)})")
                tokens.replace(after, f" = METAL_HOST_THREADGROUP_VARIABLE{tokens.text(after)}")


def _construct_vectors(tokens: Tokens) -> None:
    for i in range(len(tokens)):
        if _VECTOR.fullmatch(tokens.text(i)) and tokens.text(i + 1) == "(":
            tokens.replace(i, f"::metal::make<{tokens.text(i)}>")
        elif tokens.text(i) == "vec" and tokens.text(i + 1) == "<":
            closing = tokens.closing_angle(i + 1)
            if tokens.text(closing + 1) == "(":
                tokens.replace(i, "::metal::make<vec")
                tokens.replace(closing, ">>")
        elif _is_vector_cast(tokens, i):
            raise tokens[i].error(f"write {tokens.text(i + 1)}(...) instead of a cast")


def _is_vector_cast(tokens: Tokens, i: int) -> bool:
    is_cast = tokens.text(i) == "(" and bool(_VECTOR.fullmatch(tokens.text(i + 1))) and tokens.text(i + 2) == ")"
    return is_cast and tokens[i - 1].kind != "name" and tokens.text(i + 3) not in (";", "{", ")", ",")


def _spell_half_literals(tokens: Tokens) -> None:
    for i in range(len(tokens)):
        text = tokens.text(i)
        if tokens[i].kind == "number" and _HALF_LITERAL.fullmatch(text):
            tokens.replace(i, text[:-1] + ("" if "." in text else ".0") + "f16")


def _read_function_constants(
    tokens: Tokens, constants: list[FunctionConstant], values: Mapping[str, float] | None
) -> None:
    """Erases all attributes and gives function constants their values."""
    for i in list(tokens.find("[[")):
        tokens.erase(i, tokens.closing(i) + 1)
        for attribute in attributes(tokens, i):
            if attribute.name in ("kernel", "vertex", "fragment"):
                raise attribute.token.error("introduce kernels by the keyword kernel")
    indices = {constant.name: constant.index for constant in constants}
    for constant in constants:
        value = f"::metal::function_constant({constant.index})" if values is None else values.get(constant.name, 0)
        tokens.replace(constant.begin, f" = {value}")
    for i in tokens.find("is_function_constant_defined"):
        name = tokens[i + 2]
        if name.text not in indices:
            raise name.error(f"{name.text} is not a function constant")
        tokens.replace(i, "::metal::function_constant_defined")
        tokens.replace(i + 2, indices[name.text])


def _table(
    stem: str, kernels: list[Kernel], instantiations: list[Instantiation], constants: list[FunctionConstant]
) -> Iterator[str]:
    definitions = {kernel.name: kernel for kernel in kernels}
    entries = [(kernel.name, kernel.name, kernel) for kernel in kernels if not kernel.is_template]
    yield "#ifdef METAL_HOST_STRICT"
    for instantiation in instantiations:
        function = f"{instantiation.kernel}<{instantiation.arguments}>"
        entries.append((instantiation.host_name, function, definitions[instantiation.kernel]))
        yield f"template decltype({function}) {function};"
    yield "#else"
    yield "namespace {"
    rows = []
    for i, (host_name, function, kernel) in enumerate(entries):
        yield from _entry(i, function, kernel)
        rows.append(f'{{"{host_name}", run{i}, parameters{i}, {len(kernel.parameters)}, {kernel.max_threads}}}')
    yield f"const ::metal_host::Kernel kernels[] = {{{', '.join(rows)}}};"
    rows = [f'{{"{constant.name}", {constant.index}, "{constant.type}"}}' for constant in constants]
    yield f"const ::metal_host::FunctionConstant constants[{len(rows) or 1}] = {{{', '.join(rows)}}};"
    yield "}"
    yield f'extern "C" const ::metal_host::Library metal_host_library_{stem} = '
    yield f"    {{kernels, {len(entries)}, constants, {len(rows)}}};"
    yield "#endif"


def _entry(i: int, function: str, kernel: Kernel) -> Iterator[str]:
    """The function that runs kernel i for one thread, and the description of its parameters."""
    yield f"using Function{i} = ::metal_host::Function<decltype(&::{function})>;"
    values, rows = [], []
    for j, parameter in enumerate(kernel.parameters):
        value, row = _parameter(f"Function{i}::argument<{j}>", parameter)
        values.append(value)
        rows.append(row)
    yield f"void run{i}(const ::metal_host::Arguments& a, const ::metal_host::Position& p) {{"
    yield f"    (void)a, (void)p, ::{function}({', '.join(values)});"
    yield "}"
    yield f"const ::metal_host::Parameter parameters{i}[] = {{{', '.join(rows)}}};"


def _parameter(argument: str, parameter: Parameter) -> tuple[str, str]:
    kind = {"buffer": "buffer", "threadgroup": "shared"}.get(parameter.kind, "position")
    kind_row = f'"{parameter.name}", ::metal_host::ParameterKind::{kind}'
    if kind == "position":
        return f"::metal_host::position<{argument}>(p.{parameter.kind})", f"{{{kind_row}, 0, 0, false, nullptr}}"
    bindings = "buffers" if kind == "buffer" else "shared"
    memory = f"::metal_host::Memory<{argument}>"
    enabled = f"&::{parameter.enabled}" if parameter.enabled else "nullptr"
    row = f"{{{kind_row}, {parameter.index}, {memory}::min_bytes, {memory}::writable, {enabled}}}"
    return f"{memory}::get(a.{bindings}[{parameter.index}])", row


def main() -> None:
    """Command line, see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    parser.add_argument("--depfile", type=Path)
    parser.add_argument("--clang", default="clang++-19")
    arguments = parser.parse_args()
    try:
        text = translate(
            arguments.source, clang=arguments.clang, depfile=arguments.depfile, output=str(arguments.output)
        )
    except TranslationError as error:
        sys.exit(str(error))
    arguments.output.write_text(text)


if __name__ == "__main__":
    main()
