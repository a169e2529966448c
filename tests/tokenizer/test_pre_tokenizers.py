import json
from pathlib import Path

import pytest
from texts import SPLIT_TEXTS
from tokenizers import normalizers, pre_tokenizers

from ferrule.errors import TokenizerError
from ferrule.tokenizer.pre_tokenizers import PRE_TOKENIZERS, pre_tokenizer

DATA = Path(__file__).parents[1] / "data" / "tokenizer"
LENGTHS = {
    name: dict(zip(SPLIT_TEXTS, group["lengths"], strict=True))
    for source in ("llama_cpp", "transformers")
    for group in json.loads((DATA / f"splits_{source}.json").read_text())["groups"]
    for name in group["names"]
}

# Where llama.cpp only comes near the regular expressions of the models' own tokenizer.json, which are in the table.
# Its letters of a case leave out combining marks:
for _name in ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "tekken", "kimi-k2"):
    LENGTHS[_name] |= {"e\u0301a\u030a o\u0308\u0303": [6, 6], "नमस्ते दु": [18, 7], "สวัสดี คร": [18, 7]}
# it does not break a word at an upper-case letter:
for _name in ("tiny_aya", "cohere2moe", "kimi-k2"):
    LENGTHS[_name] |= {"CamelCase ABCdef XMLFile": [5, 4, 7, 8], "aB Ab AB ab ǅa": [1, 1, 3, 3, 3, 4]}
# it counts only Unicode's decimal digits as word characters:
for _name in ("tiny_aya", "cohere2moe"):
    LENGTHS[_name] |= {"½²³Ⅻ ٣٤٥٦ १२३४": [6, 3, 1, 2, 6, 1, 3, 9]}
# and it sees no white space beyond ASCII inside the ideographs' range.
for _name in ("deepseek-llm", "deepseek-coder"):
    LENGTHS[_name] |= {"a\u00a0b\u2003c\u3000d": [1, 3, 3, 1, 3, 1], "a\u2028b \u0085c": [1, 3, 1, 1, 3]}


def test_every_pre_tokenizer_has_a_golden() -> None:
    assert LENGTHS.keys() == PRE_TOKENIZERS.keys()


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_cuts_as_the_original(name: str) -> None:
    row = pre_tokenizer(name)
    steps = pre_tokenizers.Sequence(row.steps())
    for text, expected in LENGTHS[name].items():
        composed = normalizers.NFC().normalize_str(text) if row.nfc else text
        pieces = [piece for piece, _ in steps.pre_tokenize_str(composed)]
        assert [len(piece) for piece in pieces] == expected, (text, pieces)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(TokenizerError, match=r"'qwen3', nearest is 'qwen35'.*expected one of.*llama-bpe"):
        pre_tokenizer("qwen3")
