import json
from pathlib import Path
from typing import Any

import pytest
from texts import TEXTS

from ferrule.checkpoint import open_checkpoint
from ferrule.checkpoint.base import Checkpoint
from ferrule.checkpoint.packages import PACKAGES, ModelPackage
from ferrule.errors import CorruptFile, TokenizerError
from ferrule.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).parents[1] / "data" / "tokenizer"
SMOLLM2, GEMMA = PACKAGES


def golden(name: str) -> dict[str, Any]:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def load(metadata: dict[str, Any]) -> Tokenizer:
    return load_tokenizer(Checkpoint(Path("model.gguf"), "gguf", config={}, tensors={}, metadata=metadata))


def installed(package: ModelPackage) -> Tokenizer:
    if not package.installed():
        pytest.skip(f"{package.name} is not installed")
    return load_tokenizer(open_checkpoint(package.path(progress=False)))


@pytest.fixture(scope="module")
def smollm2() -> Tokenizer:
    return installed(SMOLLM2)


@pytest.fixture(scope="module")
def gemma() -> Tokenizer:
    return installed(GEMMA)


def tiny(**changes: Any) -> dict[str, Any]:
    """Metadata of a SentencePiece vocabulary of 384 pieces. A change to None takes the key away."""
    data = golden("sentencepiece")
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": data["tokens"],
        "tokenizer.ggml.scores": data["scores"],
        "tokenizer.ggml.token_type": data["types"],
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
    } | {f"tokenizer.ggml.{name}": value for name, value in changes.items()}
    return {key: value for key, value in metadata.items() if value is not None}


def byte_level(**changes: Any) -> dict[str, Any]:
    """Metadata of a byte-level vocabulary that spells only a, b and their unions."""
    tokens = ["a", "b", "ab", "Ġ", "Ġab", "<|im_end|>", "<s>"]
    defaults = {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": [1, 1, 1, 1, 1, 1, 3]}
    defaults |= {"merges": ["a b", "Ġ ab"], "bos_token_id": 6}
    metadata = {f"tokenizer.ggml.{name}": value for name, value in (defaults | changes).items()}
    return {key: value for key, value in metadata.items() if value is not None}


def test_smollm2_equals_its_own_tokenizer(smollm2: Tokenizer) -> None:
    for text, ids in zip(TEXTS, golden("smollm2")["ids"], strict=True):
        assert smollm2.encode(text) == ids
        assert smollm2.decode(ids, skip_special_tokens=False) == text


def test_smollm2_settings(smollm2: Tokenizer) -> None:
    assert (smollm2.vocab_size, smollm2.bos_id, smollm2.adds_bos) == (49152, 1, False)
    assert {smollm2.id_to_token(i) for i in smollm2.end_ids} == {"<|im_end|>", "<|endoftext|>"}
    prompt = smollm2.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert smollm2.encode_chat([{"role": "user", "content": "Hi"}]).count(1) == 3


def test_gemma_equals_sentencepiece(gemma: Tokenizer) -> None:
    for text, ids in zip(TEXTS, golden("gemma3")["ids"], strict=True):
        assert gemma.encode(text, add_special_tokens=False) == ids
        assert gemma.decode(ids, skip_special_tokens=False) == text.replace("\u2581", " ")


def test_gemma_settings(gemma: Tokenizer) -> None:
    assert (gemma.vocab_size, gemma.bos_id, gemma.adds_bos) == (262144, 2, True)
    assert {gemma.id_to_token(i) for i in gemma.end_ids} == {"<eos>", "<end_of_turn>"}  # </s> is an HTML tag here
    assert gemma.encode("a")[0] == 2


@pytest.mark.parametrize(("prefix", "key"), [(False, "ids"), (True, "ids_with_space_prefix")])
def test_scores_merge_as_sentencepiece(prefix: bool, key: str) -> None:
    tokenizer = load(tiny(add_space_prefix=prefix))
    for text, ids in zip(TEXTS, golden("sentencepiece")[key], strict=True):
        if prefix and "<" in text:
            continue  # SentencePiece puts no space after a user-defined token, Hugging Face and llama.cpp do
        assert tokenizer.encode(text, add_special_tokens=False) == ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text.replace("\u2581", " ")


def test_space_prefix_after_every_special_token() -> None:
    tokenizer = load(tiny())
    pieces = [tokenizer.id_to_token(i) for i in tokenizer.encode("t<end_of_turn>t")]
    assert pieces == ["<bos>", "▁t", "<end_of_turn>", "▁t"]


def test_given_merges_come_before_scores() -> None:
    scores = golden("sentencepiece")["scores"]
    tokenizer = load(tiny(model="gemma4", scores=None, merges=["h e"], add_bos_token=False))
    assert [tokenizer.id_to_token(i) for i in tokenizer.encode("the the")] == ["<bos>", "t", "he", "▁", "t", "he"]
    assert len(scores) == tokenizer.vocab_size


def test_bos_is_added_once() -> None:
    tokenizer = load(tiny(add_space_prefix=False))
    assert tokenizer.encode("<bos>t") == tokenizer.encode("t") == [2, tokenizer.token_to_id("t")]
    assert tokenizer.encode("") == [2]
    assert load(tiny(add_bos_token=False)).encode("") == []
    assert load(byte_level()).encode("") == []
    assert load(byte_level(pre="llama-bpe")).encode("") == [6]
    assert load(byte_level(add_bos_token=True)).encode("<s>ab") == [6, 2]


def test_ends_of_every_source() -> None:
    assert load(byte_level()).end_ids == {5}  # <|im_end|>, though the file calls it normal
    assert load(byte_level(eos_token_id=0, eot_token_id=1, eom_token_id=2)).end_ids == {0, 1, 2, 5}
    assert load(byte_level(eos_token_id=99)).end_ids == {5}


def test_end_closes_only_a_part_where_return_and_call_exist() -> None:
    tokens = ["<|end|>", "<|return|>", "<|call|>"]
    harmony = load(byte_level(tokens=tokens, token_type=[3, 3, 3], merges=[], bos_token_id=None))
    assert harmony.end_ids == {1, 2}
    assert load(byte_level(tokens=tokens[:2], token_type=[3, 3], merges=[])).end_ids == {0, 1}


def test_ignore_merges_takes_a_word_whole() -> None:
    changes = {"tokens": ["a", "b", "ab"], "token_type": None, "merges": [], "add_bos_token": False}
    assert load(byte_level(pre="llama-bpe", **changes)).encode("ab") == [2]
    assert load(byte_level(pre="gpt-2", **changes)).encode("ab") == [0, 1]


def test_text_is_composed_where_the_original_does() -> None:
    tokens = {"tokens": ["e", "Ì", "ģ", "Ã", "©"], "token_type": None, "merges": []}
    assert load(byte_level(pre="qwen2", **tokens)).encode("e\u0301") == [3, 4]
    assert load(byte_level(pre="gpt-2", **tokens)).encode("e\u0301") == [0, 1, 2]


def test_user_defined_tokens_are_text() -> None:
    tokenizer = load(byte_level(token_type=[1, 1, 4, 1, 1, 3, 3], merges=[]))
    assert tokenizer.encode("aab") == [0, 2]
    assert tokenizer.decode([0, 2, 5]) == "aab"


def test_phi3_specials_swallow_the_space_after_them() -> None:
    tokens, types = golden("sentencepiece")["tokens"], golden("sentencepiece")["types"]
    tokens = [*tokens, "<|placeholder1|>", "<|user|>", "<|endoftext|>"]
    extra = {"scores": [*golden("sentencepiece")["scores"], 0.0, 0.0, 0.0], "add_space_prefix": False}
    tokenizer = load(tiny(tokens=tokens, token_type=[*types, 3, 3, 3], **extra))
    assert tokenizer.encode("<|user|>\n t", add_special_tokens=False) == [385, tokenizer.token_to_id("t")]
    assert len(tokenizer.encode("<|endoftext|> t", add_special_tokens=False)) == 2


def test_chat_templates_by_name() -> None:
    metadata = byte_level() | {"tokenizer.chat_template": "{{ bos_token }}d", "tokenizer.chat_template.tool_use": "t"}
    tokenizer = load(metadata)
    assert tokenizer.apply_chat_template([]) == "<s>d"
    assert tokenizer.apply_chat_template([], tools=[{}]) == "t"
    assert tokenizer.apply_chat_template([], chat_template="mine") == "mine"


@pytest.mark.parametrize("model", ["t5", "rwkv", "bert", "none", None])
def test_other_models_are_refused(model: str | None) -> None:
    with pytest.raises(TokenizerError, match=r"model.gguf: .*expected tokenizer.ggml.model gpt2"):
        load(byte_level(model=model))


@pytest.mark.parametrize("key", ["pre", "merges"])
def test_missing_rules_are_refused(key: str) -> None:
    with pytest.raises(TokenizerError, match=f"lacks tokenizer.ggml.{key}"):
        load(byte_level(**{key: None}))


def test_unknown_pre_tokenizer_is_refused() -> None:
    with pytest.raises(TokenizerError, match="unknown pre-tokenizer 'mystery'"):
        load(byte_level(pre="mystery"))


@pytest.mark.parametrize("scores", [None, [0.0] * 384, [0.0]])
def test_scores_without_information_are_refused(scores: list[float] | None) -> None:
    with pytest.raises(TokenizerError, match="scores is missing or all equal"):
        load(tiny(scores=scores))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": []}, "tokens is missing or empty"),
        ({"token_type": [1]}, "token_type has not one entry"),
        ({"tokens": ["a", "b", "ab", "Ġ", "Ġab", "a", "<s>"]}, "lists 'a' twice"),
        ({"merges": ["a x"]}, "do not fit together"),
        ({"merges": ["ab"]}, "do not fit together"),
        ({"merges": [1]}, "do not fit together"),
        ({"tokens": [1, 2, 3, 4, 5, 6, 7]}, "do not fit together"),
        ({"token_type": ["normal"] * 7}, "do not fit together"),
        ({"bos_token_id": "first"}, "do not fit together"),
        ({"eos_token_id": [1]}, "do not fit together"),
    ],
)
def test_contradictions_are_corrupt(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        load(byte_level(**changes))
