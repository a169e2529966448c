"""Renders a chat template: Jinja, written by whoever made the model, so run in a sandbox with limits.

The environment is the one Hugging Face defines for chat templates, whose dialect all templates are written in:
https://huggingface.co/docs/transformers/chat_templating_writing
"""

from __future__ import annotations

import functools
import json
import time
import traceback
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ..errors import ChatTemplateError

# Real templates stay below 100 KB, render in milliseconds and count messages; these bounds stop what runs away.
MAX_TEMPLATE_CHARACTERS = 1 << 20
MAX_RENDERED_CHARACTERS = 1 << 26
MAX_NUMBER = 1 << 40
MAX_SECONDS = 10.0
_FILE_NAME = "<template>"  # what Jinja calls a template that came from a string, also in tracebacks


def render_chat_template(template: str, variables: Mapping[str, Any]) -> str:
    """The prompt that `template` makes of `variables` (messages, tools, add_generation_prompt, bos_token ...).

    Raises:
        ChatTemplateError: the template is not Jinja, fails, refuses the messages, or runs away.
    """
    compiled, guard = _compile(template)
    guard.deadline = time.monotonic() + MAX_SECONDS
    pieces: list[str] = []
    written = 0
    try:
        for piece in compiled.generate(**variables):
            pieces.append(piece)
            written += len(piece)
            if written > MAX_RENDERED_CHARACTERS:
                raise SecurityError("it wrote too much text")
    except Exception as error:
        where = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE_NAME]
        line = f" at line {where[-1]}" if where else ""
        raise ChatTemplateError(
            f"the chat template failed{line}: {error or type(error).__name__}",
            hint="Check roles and order of the messages, or give another template (chat_template=, --chat-template)",
        ) from error
    return "".join(pieces)


@functools.lru_cache(maxsize=16)
def _compile(source: str) -> tuple[jinja2.Template, _Guard]:
    if len(source) > MAX_TEMPLATE_CHARACTERS:
        raise ChatTemplateError(
            "the chat template is too long",
            expected=f"at most {MAX_TEMPLATE_CHARACTERS} characters",
            found=str(len(source)),
        )
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, _Guard, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["namespace"] = _Namespace
    try:
        tree = environment.parse(source)
        _plant_guards(tree)
        compiled = jinja2.Template.from_code(environment, environment.compile(tree), environment.make_globals(None))
    except jinja2.TemplateSyntaxError as error:
        raise ChatTemplateError(
            f"the chat template is not valid Jinja at line {error.lineno}: {error.message}",
            hint="Give another template (chat_template=, --chat-template)",
        ) from error
    except RecursionError as error:
        raise ChatTemplateError("the chat template is nested too deeply") from error
    guard = environment.extensions[_Guard.identifier]
    assert isinstance(guard, _Guard)
    return compiled, guard


class _GenerationTag(Extension):
    """`{% generation %}`, which marks the assistant's words for training, renders as its body."""

    tags = {"generation"}  # noqa: RUF012  (an instance variable in Jinja's typing)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Guard(Extension):
    """What `_plant_guards` calls from within a template."""

    deadline = 0.0

    def tick(self) -> None:
        if time.monotonic() > self.deadline:
            raise SecurityError(f"it ran longer than {MAX_SECONDS:g} seconds")

    def concatenate(self, *parts: object) -> str:
        text = "".join(map(str, parts))
        _check_size(text)
        return text


def _plant_guards(tree: nodes.Template) -> None:
    """Puts a clock into every loop and macro and a limit on every `~`: Jinja's sandbox watches neither."""

    def call(name: str, arguments: list[nodes.Expr]) -> nodes.Call:
        return nodes.Call(nodes.ExtensionAttribute(_Guard.identifier, name), arguments, [], None, None)

    assert tree.environment is not None
    bodies = [(node.body, node.lineno) for node in tree.find_all(nodes.For)]
    bodies += [(node.body, node.lineno) for node in tree.find_all(nodes.Macro)]
    for body, line in bodies:
        body.insert(0, nodes.ExprStmt(call("tick", []), lineno=line))
    for concat in list(tree.find_all(nodes.Concat)):
        concat.nodes = [call("concatenate", concat.nodes)]
    tree.set_environment(tree.environment)


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox, with arithmetic that cannot fill the memory."""

    intercepted_binops = frozenset(["*", "**", "+"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and abs(right) > 64:
            raise SecurityError("an exponent is too large")
        if operator == "*":
            for count, value in ((left, right), (right, left)):
                if hasattr(value, "__len__") and len(value) * count > MAX_RENDERED_CHARACTERS:
                    raise SecurityError("a value grew too large")
        result = super().call_binop(context, operator, left, right)
        _check_size(result)
        return result


def _check_size(value: object) -> None:
    if (isinstance(value, int) and abs(value) > MAX_NUMBER) or (
        isinstance(value, str | list | tuple) and len(value) > MAX_RENDERED_CHARACTERS
    ):
        raise SecurityError("a value grew too large")


class _Namespace(Namespace):
    """Jinja's, without names that Python itself would call, such as __html__."""

    def __init__(*args: Any, **values: Any) -> None:  # `namespace(self=1)` is allowed
        Namespace.__init__(*args, **values)
        for name in dict(*args[1:], **values):
            _check_name(name)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if str(name).startswith("__"):
        raise SecurityError(f"a namespace cannot hold {name!r}")


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as prompts have it: keys in order and, unlike Jinja's own filter, no HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
