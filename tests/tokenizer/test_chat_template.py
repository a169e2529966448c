import time
from typing import Any

import pytest

from ferrule.errors import ChatTemplateError
from ferrule.tokenizer import chat_template
from ferrule.tokenizer.chat_template import render_chat_template


def render(template: str, **variables: Any) -> str:
    return render_chat_template(template, variables)


def test_blocks_are_trimmed() -> None:
    template = "{% for m in messages %}\n    {% if m %}\n<{{ m }}>\n    {% endif %}\n{% endfor %}\nend"
    assert render(template, messages=["a", "b"]) == "<a>\n<b>\nend"


def test_loop_controls() -> None:
    template = (
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}"
    )
    assert render(template + "{% endfor %}") == "023"


def test_tojson_keeps_order_and_characters() -> None:
    value = {"b": "<é & 'ü'>", "a": [1, None, True]}
    assert render("{{ v | tojson }}", v=value) == '{"b": "<é & \'ü\'>", "a": [1, null, true]}'
    assert render("{{ v | tojson(indent=2) }}", v={"a": 1}) == '{\n  "a": 1\n}'
    assert render("{{ v | tojson(ensure_ascii=True, sort_keys=True) }}", v=value).startswith(
        '{"a": [1, null, true], "b"'
    )
    assert render("{{ v | tojson(separators=(',', ':')) }}", v={"a": [1, 2]}) == '{"a":[1,2]}'


def test_generation_tags_render_their_body() -> None:
    template = "{% generation %}\n{{ m }}{% set x = 1 %}{% endgeneration %}\n|{{ x }}"
    assert render(template, m="a") == "a|"  # what the body sets stays inside


def test_strftime_now() -> None:
    assert render("{{ strftime_now('%Y') }}") == time.strftime("%Y")


def test_common_idioms() -> None:
    assert render("{% set ns = namespace({'a': 1}, b=2, self=3) %}{{ ns.a ~ ns.b ~ ns.self }}") == "123"
    assert (
        render("{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}")
        == "3"
    )
    assert render("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) ~ f('a') ~ none }}") == "<1><a>None"
    assert render("{{ m.content.split('</think>')[-1].lstrip('\\n') }}", m={"content": "x</think>\n\ny"}) == "y"
    assert (
        render(
            "{{ messages[1:] | selectattr('role', 'equalto', 'user') | list | length }}",
            messages=[{"role": "user"}] * 3,
        )
        == "2"
    )
    assert render("{{ undefined_thing }}{{ bos_token }}", bos_token="<s>") == "<s>"
    assert render("{{ 'a' * 3 + 'b' }} {{ 7 % 3 }} {{ '%s-%d' % ('x', 1) }}") == "aaab 1 x-1"


def test_a_refusal_tells_its_reason_and_line() -> None:
    with pytest.raises(ChatTemplateError, match=r"failed at line 3: System role not supported. Check roles"):
        render("a\n\n{{ raise_exception('System role not supported') }}")


def test_errors_name_the_line() -> None:
    with pytest.raises(
        ChatTemplateError, match=r"not valid Jinja at line 2: .*Give another template .chat_template=, --chat-template"
    ):
        render("a\n{% for %}")
    with pytest.raises(ChatTemplateError, match=r"failed at line 2: .*'missing'"):
        render("{% set x = 1 %}\n{{ missing.attribute }}")
    with pytest.raises(ChatTemplateError, match=r"failed at line 1: .*not JSON serializable"):
        render("{{ x | tojson }}", x=object())


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ self.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__['datetime'] }}",
        "{{ ''.join.__self__.__class__ }}",
        "{{ '{0.__class__.__base__}'.format('') }}",
        "{{ messages.append(1) }}",
        "{% set _ = messages[0].update({'content': 'changed'}) %}",
        "{{ messages | map(attribute='__class__') | list }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends '/etc/passwd' %}",
    ],
)
def test_attacks_find_nothing(template: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    try:
        text = render(template, messages=messages)
    except ChatTemplateError:
        text = ""
    assert not any(word in text for word in ("class", "module", "root:", "function", "datetime"))
    assert messages == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("template", ["{% set ns.__html__ = f %}", "{% set ns = namespace(__html__=f) %}"])
def test_namespaces_hold_nothing_that_python_calls(template: str) -> None:
    with pytest.raises(ChatTemplateError, match="a namespace cannot hold '__html__'"):
        render("{% macro f() %}{% endmacro %}{% set ns = namespace() %}" + template + "{{ ns | e }}")


DOUBLING = "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = OP %}{% endfor %}"
LOOP = "{% for i in range(99999) %}{% for j in range(99999) %}BODY{% endfor %}{% endfor %}"
MACRO = "{% macro f(n) %}{% if n %}{% set a = f(n - 1) %}{% set b = f(n - 1) %}{% endif %}{% endmacro %}{{ f(60) }}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        (LOOP.replace("BODY", "{% set x = 1 %}"), "ran longer than 0.2 seconds"),
        (LOOP.replace("BODY", "x" * 100), "wrote too much text"),
        (MACRO, "ran longer than 0.2 seconds"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
        ("{{ 'a' * 10**10 }}", "a value grew too large"),
        ("{{ 10**10 * 'a' }}", "a value grew too large"),
        ("{{ [0] * 10**10 }}", "a value grew too large"),
        ("{{ 9 ** 9 ** 9 }}", "a value grew too large"),
        ("{{ 2 ** (10 ** 10) }}", "an exponent is too large"),
        (DOUBLING.replace("OP", "ns.x ~ ns.x"), "a value grew too large"),
        (DOUBLING.replace("OP", "ns.x + ns.x"), "a value grew too large"),
        (DOUBLING.replace("OP", "ns.x * 2"), "a value grew too large"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
        ("x" * ((1 << 20) + 1), "too long; expected at most 1048576 characters"),
    ],
    ids=range(15),
)
def test_runaways_end(template: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What ends for another reason may take its time on a busy machine.
    monkeypatch.setattr(chat_template, "MAX_SECONDS", 0.2 if "seconds" in message else 60)
    monkeypatch.setattr(chat_template, "MAX_RENDERED_CHARACTERS", 1 << 20)
    with pytest.raises(ChatTemplateError, match=message):
        render(template)
