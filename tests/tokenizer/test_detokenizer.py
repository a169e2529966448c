import json
import random
from pathlib import Path

import pytest
from texts import TEXTS

from ferrule.checkpoint.base import Checkpoint
from ferrule.errors import TokenizerError
from ferrule.tokenizer import Detokenizer, Tokenizer, load_tokenizer
from ferrule.tokenizer.detokenizer import PieceRules, rules_of_decoder

TINY = Path(__file__).parents[1] / "data" / "tiny" / "tokenizers"


@pytest.fixture(scope="module", params=["qwen", "gpt2", "gemma", "llama"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return load_tokenizer(Checkpoint(TINY / request.param, "safetensors", config={}, tensors={}))


def pieces(detokenizer: Detokenizer, ids: list[int]) -> list[str]:
    return [*(detokenizer.feed(i) for i in ids), detokenizer.flush()]


def test_pieces_are_whole_characters(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        if "\ufffd" in text:
            continue
        ids = tokenizer.encode(text)
        found = pieces(Detokenizer(tokenizer), ids)
        assert "".join(found) == tokenizer.decode(ids)
        assert not any("\ufffd" in piece for piece in found)


def test_characters_come_as_soon_as_they_are_whole(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("é🙂", add_special_tokens=False)
    detokenizer = Detokenizer(tokenizer)
    shown = ""
    for n, token_id in enumerate(ids, start=1):
        shown += detokenizer.feed(token_id)
        whole = b"".join(tokenizer.token_bytes(i) for i in ids[:n]).decode(errors="ignore")
        assert shown == (whole.removeprefix(" ") if tokenizer.piece_rules.strip_leading_space else whole)


def test_any_ids_add_up(tokenizer: Tokenizer) -> None:
    choice = random.Random(0)
    for _ in range(200):
        ids = [choice.randrange(tokenizer.vocab_size + 2) for _ in range(choice.randrange(30))]
        for skip in (True, False):
            found = pieces(Detokenizer(tokenizer, skip_special_tokens=skip), ids)
            assert "".join(found) == tokenizer.decode(ids, skip_special_tokens=skip)


def test_half_a_character_at_the_end_is_replaced(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("𠮷", add_special_tokens=False)
    found = pieces(Detokenizer(tokenizer), ids[:-1])
    assert "".join(found[:-1]).strip() == ""
    assert found[-1] == "\ufffd"


def test_a_prompt_is_continued(tokenizer: Tokenizer) -> None:
    """The split may be inside a character, and a space after the prompt stays."""
    ids = tokenizer.encode("The 🙂 end")
    for n in range(len(ids)):
        prompt = Detokenizer(tokenizer)
        before = "".join(prompt.feed(i) for i in ids[:n])
        assert before + "".join(pieces(Detokenizer(tokenizer, ids[:n]), ids[n:])) == "The 🙂 end"


def test_special_tokens_are_skipped_or_shown(tokenizer: Tokenizer) -> None:
    end = next(i for i in sorted(tokenizer.end_ids))
    assert pieces(Detokenizer(tokenizer), [end]) == ["", ""]
    assert pieces(Detokenizer(tokenizer, skip_special_tokens=False), [end])[0] == tokenizer.id_to_token(end)


def test_bytes_of_every_token_are_those_of_its_text(tokenizer: Tokenizer) -> None:
    for token_id in range(tokenizer.vocab_size):
        if tokenizer.token_bytes(token_id).isascii():
            shown = tokenizer.decode([token_id], skip_special_tokens=False)
            data = tokenizer.token_bytes(token_id).decode()
            assert shown == (data.removeprefix(" ") if tokenizer.piece_rules.strip_leading_space else data)
    assert tokenizer.token_bytes(10**6) == b""


def test_byte_alphabet() -> None:
    rules = PieceRules(byte_level=True)
    assert rules.to_bytes("ĠaĊÃ©") == " a\né".encode()
    assert rules.to_bytes("a b") == b"a b"  # a space is not of the alphabet
    assert rules.to_bytes("é", added=True) == "é".encode()
    every = json.loads((TINY / "gpt2" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    assert {rules.to_bytes(piece) for piece in every if len(piece) == 1} == {bytes([byte]) for byte in range(256)}


def test_rules_of_decoders() -> None:
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False}
    assert rules_of_decoder(None) == PieceRules()
    assert rules_of_decoder({"type": "ByteLevel", "add_prefix_space": True}) == PieceRules(byte_level=True)
    assert rules_of_decoder(metaspace) == PieceRules(metaspace=True)
    first = PieceRules(metaspace=True, strip_leading_space=True)
    assert rules_of_decoder(metaspace | {"prepend_scheme": "first"}) == first
    with pytest.raises(TokenizerError, match="'CTC'"):
        rules_of_decoder({"type": "Sequence", "decoders": [{"type": "CTC"}]})
