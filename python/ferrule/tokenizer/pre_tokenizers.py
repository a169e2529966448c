# ruff: noqa: RUF001 (the tables hold the characters of all scripts)
"""How each pre-tokenizer that a GGUF file may name cuts text into words before byte-level BPE.

`tokenizer.ggml.pre` is only a name; the rule behind it is the one of the model's own tokenizer.json, which this
table states in the terms of the `tokenizers` library. A wrong rule yields plausible text and wrong ids, so a name
that is not in the table is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from ..errors import TokenizerError

Steps = Callable[[], list[pre_tokenizers.PreTokenizer]]


@dataclass(frozen=True)
class PreTokenizer:
    """One row of the table.

    `steps` builds the splitters, run one after another, each on the pieces of the one before. `nfc` composes the
    text first. `ignore_merges` takes a word that is itself a token whole, without merging. `add_bos` is the
    default of a file that does not say.
    """

    steps: Steps
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SYMBOLS_AND_SPACE = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SYMBOLS_SLASH_AND_SPACE = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_DIGIT = r"\p{N}"
_UP_TO_3_DIGITS = r"\p{N}{1,3}"

_LLAMA3 = f"{_CONTRACTION}|{_WORD}|{_UP_TO_3_DIGITS}|{_SYMBOLS_AND_SPACE}"
_QWEN2 = f"{_CONTRACTION}|{_WORD}|{_DIGIT}|{_SYMBOLS_AND_SPACE}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|{_DIGIT}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _cased_words(suffix: str = "", but: str = "") -> str:
    """Words that break where lower case turns to upper case: "HelloWorld" is two. `but` is taken from each class."""
    upper, lower = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]"
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{upper}*{lower}+{suffix}|{lead}{upper}+{lower}*{suffix}"


_GPT4O = f"{_cased_words(_CONTRACTION + '?')}|{_UP_TO_3_DIGITS}|{_SYMBOLS_SLASH_AND_SPACE}"
_TEKKEN = f"{_cased_words()}|{_DIGIT}|{_SYMBOLS_SLASH_AND_SPACE}"
_KIMI = "|".join(
    (r"\p{Han}+", _cased_words(_CONTRACTION + "?", but=r"&&[^\p{Han}]"), _UP_TO_3_DIGITS, _SYMBOLS_AND_SPACE)
)
_CJK_OF_DEEPSEEK_V3 = "[一-龥\u3040-ゟ゠-ヿ]+"  # unified ideographs, hiragana, katakana
_CJK_OF_DEEPSEEK_LLM = "[一-龥ࠀ-一가-\ud7ff]+"
_DEEPSEEK_V3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The cased letters of Unicode as DeepSeek's tokenizer.json lists them: the properties Lu, Ll and Lt hold more.
_CASED_LETTERS_OF_DEEPSEEK_LLM = (
    # Escapes where composing the source text would change a character.
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffcℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ"
    "𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
)
_BLOOM = " ?[^(\\s|.,!?…。，、।۔،)]+"
_SPACE_CASCADE = "|".join(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}"


def _split(*patterns: str) -> Steps:
    """Isolates the matches of each regular expression (Oniguruma's syntax), then maps bytes to GPT-2's alphabet."""

    def build() -> list[pre_tokenizers.PreTokenizer]:
        splits: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
        return [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]

    return build


def _falcon() -> list[pre_tokenizers.PreTokenizer]:
    """Falcon cuts digits after the bytes were mapped: bytes whose symbol is a digit (², ½ ...) are cut out too."""
    return [
        pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        pre_tokenizers.Digits(individual_digits=False),
        pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
    ]


def _rows(names: str, row: PreTokenizer) -> dict[str, PreTokenizer]:
    return dict.fromkeys(names.split(), row)


PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    **_rows("default", PreTokenizer(_split(r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
    **_rows("gpt-2 phi-2 jais trillion exaone4 gigachat a.x-4.0 mellum granite-docling", PreTokenizer(_split(_GPT2))),
    **_rows("mpt olmo", PreTokenizer(_split(_GPT2), nfc=True)),
    **_rows("smollm starcoder refact codeshell exaone minerva-7b mellum2", PreTokenizer(_split(_DIGIT, _GPT2))),
    **_rows("command-r", PreTokenizer(_split(_DIGIT, _GPT2), nfc=True)),
    **_rows(
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        PreTokenizer(_split(_LLAMA3), ignore_merges=True, add_bos=True),
    ),
    **_rows("dbrx smaug-bpe glm4 chatglm-bpe", PreTokenizer(_split(_LLAMA3))),
    **_rows(
        "minicpm5",
        PreTokenizer(
            _split(_UP_TO_3_DIGITS, rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_SYMBOLS_AND_SPACE}"), ignore_merges=True
        ),
    ),
    **_rows(
        "jais-2",
        PreTokenizer(
            _split(
                rf"{_CONTRACTION}|{_WORD}|{_UP_TO_3_DIGITS}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|{_SPACE_CASCADE}"
            )
        ),
    ),
    **_rows("qwen2", PreTokenizer(_split(_QWEN2), nfc=True)),
    **_rows("qwen35", PreTokenizer(_split(_QWEN35), nfc=True)),
    **_rows("deepseek-r1-qwen stablelm2 hunyuan solar-open megrez grok-2 kormo", PreTokenizer(_split(_QWEN2))),
    **_rows(
        "deepseek-llm",
        PreTokenizer(
            _split(
                r"[\r\n]",
                rf"\s?[{_CASED_LETTERS_OF_DEEPSEEK_LLM}]+",
                r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
                r"\s+$",
                _CJK_OF_DEEPSEEK_LLM,
                r"\p{N}+",
            )
        ),
    ),
    **_rows(
        "deepseek-coder",
        PreTokenizer(_split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK_OF_DEEPSEEK_LLM, _DIGIT)),
    ),
    **_rows(
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        PreTokenizer(_split(_UP_TO_3_DIGITS, _CJK_OF_DEEPSEEK_V3, _DEEPSEEK_V3)),
    ),
    **_rows("falcon", PreTokenizer(_falcon)),
    **_rows("bloom poro-chat gpt3-finnish", PreTokenizer(_split(_BLOOM))),
    **_rows("viking", PreTokenizer(_split(_BLOOM, _DIGIT))),
    **_rows("gpt-4o llama4 kanana2 talkie minimax-m2", PreTokenizer(_split(_GPT4O))),
    **_rows("tiny_aya cohere2moe", PreTokenizer(_split(r"\d{1,3}(?=(?:\d{3})*\b)", _GPT4O))),
    **_rows("tekken", PreTokenizer(_split(_TEKKEN), ignore_merges=True, add_bos=True)),
    **_rows("kimi-k2", PreTokenizer(_split(_KIMI))),
    **_rows(
        "bailingmoe bailingmoe2 llada-moe",
        PreTokenizer(
            _split(
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
                r"|\s*[\r\n]|\s+(?!\S)|\s+"
            )
        ),
    ),
    **_rows(
        "seed-coder",
        PreTokenizer(_split(rf"{_CONTRACTION}|{_WORD}|{_DIGIT}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")),
    ),
    **_rows(
        "exaone-moe",
        PreTokenizer(
            _split(
                rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|{_DIGIT}"
                r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
            )
        ),
    ),
}


def pre_tokenizer(name: str) -> PreTokenizer:
    """The row called `name`.

    Raises:
        TokenizerError: no such row; the message lists the names there are.
    """
    if name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    near = difflib.get_close_matches(name, PRE_TOKENIZERS, n=1)
    raise TokenizerError(
        f"unknown pre-tokenizer {name!r}" + (f", nearest is {near[0]!r}" if near else ""),
        expected="one of " + ", ".join(sorted(PRE_TOKENIZERS)),
        hint="Load the model's Hugging Face directory instead, or add a row to ferrule/tokenizer/pre_tokenizers.py",
    )
