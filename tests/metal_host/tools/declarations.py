"""Finds the kernels, their instantiations and the function constants of a translation unit."""

from __future__ import annotations

from dataclasses import dataclass

from tokens import Token, Tokens

POSITIONS = {
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threads_per_threadgroup",
    "threadgroups_per_grid",
    "threads_per_grid",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "threads_per_simdgroup",
}
MAX_THREADS = "1024"


@dataclass(frozen=True)
class Attribute:
    """`[[name(argument)]]`; the argument is source text, empty where there is none."""

    name: str
    argument: str
    token: Token


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter. `kind` is "buffer", "threadgroup" or a position; `index` and `enabled` are source text."""

    name: str
    kind: str
    index: str
    enabled: str


@dataclass(frozen=True)
class Kernel:
    """A kernel's definition, `begin` to `end` its body with braces."""

    name: str
    parameters: list[Parameter]
    is_template: bool
    max_threads: str
    token: Token
    begin: int
    end: int


@dataclass(frozen=True)
class Instantiation:
    """`template [[host_name("...")]] kernel decltype(kernel<arguments>) kernel<arguments>;`"""

    host_name: str
    kernel: str
    arguments: str
    token: Token
    begin: int
    end: int


@dataclass(frozen=True)
class FunctionConstant:
    """`constant <type> name [[function_constant(index)]];`, the attribute at `begin`."""

    name: str
    index: str
    type: str
    begin: int


def attributes(tokens: Tokens, i: int) -> list[Attribute]:
    """The attributes of the `[[...]]` that opens at i."""
    end, j = tokens.closing(i), i + 1
    found = []
    while j < end:
        name, argument = tokens[j], ""
        j += 1
        if tokens.text(j) == "(":
            argument = " ".join(tokens.texts(j + 1, tokens.closing(j)))
            j = tokens.closing(j) + 1
        if name.text != ",":
            found.append(Attribute(name.text, argument, name))
    return found


def function_constants(tokens: Tokens) -> list[FunctionConstant]:
    """Constants that are given at pipeline creation; on a parameter the attribute means something else."""
    return [
        FunctionConstant(tokens.text(i - 1), attribute.argument, tokens.text(i - 2), i)
        for i in tokens.find("[[")
        for attribute in attributes(tokens, i)
        if attribute.name == "function_constant" and tokens.text(tokens.closing(i) + 1) == ";"
    ]


def kernels_and_instantiations(tokens: Tokens) -> tuple[list[Kernel], list[Instantiation]]:
    """Everything that the keyword `kernel` introduces."""
    kernels: list[Kernel] = []
    instantiations: list[Instantiation] = []
    for i in tokens.find("kernel"):
        before, marks = i - 1, []
        while tokens.text(before) == "]]":
            opening = next(j for j in range(before, -1, -1) if tokens.text(j) == "[[" and tokens.closing(j) == before)
            marks += attributes(tokens, opening)
            before = opening - 1
        if tokens.text(before) == "template":
            instantiations.append(_instantiation(tokens, i, before, marks))
        else:
            kernels.append(_kernel(tokens, i, before, marks))
    _check_instantiated(kernels, instantiations)
    return kernels, instantiations


def _kernel(tokens: Tokens, i: int, before: int, marks: list[Attribute]) -> Kernel:
    is_template = tokens.text(before) == ">" and tokens.text(tokens.opening_angle(before) - 1) == "template"
    opening = next(j for j in range(i, len(tokens)) if tokens.text(j) == "(")
    closing = tokens.closing(opening)
    if tokens.texts(i + 1, opening)[:-1] != ["void"]:
        raise tokens[i].error("a kernel returns void")
    if tokens.text(closing + 1) != "{":
        raise tokens[i].error("a kernel must be defined where it is declared")
    max_threads = MAX_THREADS
    for mark in marks:
        if mark.name != "max_total_threads_per_threadgroup":
            raise mark.token.error(f"attribute {mark.name} is not known on a kernel")
        max_threads = mark.argument
    parameters = [_parameter(tokens, *bounds) for bounds in _split_at_commas(tokens, opening + 1, closing)]
    name = tokens[opening - 1]
    return Kernel(name.text, parameters, is_template, max_threads, name, closing + 1, tokens.closing(closing + 1))


def _split_at_commas(tokens: Tokens, begin: int, end: int) -> list[tuple[int, int]]:
    bounds, start, j = [], begin, begin
    while j < end:
        if tokens.text(j) in ("(", "[", "[["):
            j = tokens.closing(j)
        elif tokens.text(j) == "<":
            j = tokens.closing_angle(j)
        elif tokens.text(j) == ",":
            bounds.append((start, j))
            start = j + 1
        j += 1
    return [*bounds, (start, end)] if start < end else bounds


def _parameter(tokens: Tokens, begin: int, end: int) -> Parameter:
    first = next((j for j in range(begin, end) if tokens.text(j) == "[["), None)
    if first is None:
        raise tokens[begin].error("a kernel's parameter needs [[buffer(n)]], [[threadgroup(n)]] or a position")
    name, kind, index, enabled = tokens.text(first - 1), "", "", ""
    for attribute in attributes(tokens, first):
        if attribute.name in ("buffer", "threadgroup") and attribute.argument:
            kind, index = attribute.name, attribute.argument
        elif attribute.name in POSITIONS:
            kind = attribute.name
        elif attribute.name == "function_constant":
            enabled = attribute.argument
        else:
            raise attribute.token.error(f"attribute {attribute.name} is not known on parameter '{name}'")
    space = {"buffer": ("device", "constant"), "threadgroup": ("threadgroup",)}.get(kind)
    if space and not set(space) & set(tokens.texts(begin, first)):
        raise tokens[begin].error(f"parameter '{name}' must point to {' or '.join(space)} memory")
    return Parameter(name, kind, index, enabled)


def _instantiation(tokens: Tokens, i: int, begin: int, marks: list[Attribute]) -> Instantiation:
    host_name = next((mark.argument.strip('"') for mark in marks if mark.name == "host_name"), None)
    if host_name is None:
        raise tokens[i].error("an instantiation of a kernel needs [[host_name]]")
    end = next(j for j in range(i, len(tokens)) if tokens.text(j) == ";")
    if tokens.text(i + 1) != "decltype" or tokens.text(end - 1) != ">":
        raise tokens[i].error("instantiate as: template [[host_name(...)]] kernel decltype(name<...>) name<...>;")
    opening = tokens.opening_angle(end - 1)
    arguments = " ".join(tokens.texts(opening + 1, end - 1))
    return Instantiation(host_name, tokens.text(opening - 1), arguments, tokens[i], begin, end + 1)


def _check_instantiated(kernels: list[Kernel], instantiations: list[Instantiation]) -> None:
    templates = {kernel.name for kernel in kernels if kernel.is_template}
    for instantiation in instantiations:
        if instantiation.kernel not in templates:
            raise instantiation.token.error(f"no kernel template is named {instantiation.kernel}")
    for kernel in kernels:
        if kernel.is_template and kernel.name not in {instantiation.kernel for instantiation in instantiations}:
            raise kernel.token.error(f"kernel template {kernel.name} is never instantiated")
