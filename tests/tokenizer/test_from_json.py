import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from texts import TEXTS
from tokenizers import Tokenizer as Backend
from tokenizers import decoders

from ferrule.checkpoint.base import Checkpoint
from ferrule.errors import CorruptFile, TokenizerError
from ferrule.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).parents[1] / "data"
GOLDENS = json.loads((DATA / "tokenizer" / "huggingface.json").read_text(encoding="utf-8"))


def load(directory: Path, **parts: Any) -> Tokenizer:
    return load_tokenizer(Checkpoint(directory, "safetensors", **({"config": {}, "tensors": {}} | parts)))


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "tiny" / "tokenizers" / "qwen", tmp_path / "qwen"))


def rewrite(path: Path, **changes: Any) -> None:
    """Changes keys of a JSON file; None takes one away."""
    data = (json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}) | changes
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}), encoding="utf-8")


@pytest.mark.parametrize("name", GOLDENS)
def test_equals_transformers(name: str) -> None:
    tokenizer = load(DATA / "tiny" / "tokenizers" / name)
    for text, ids in zip(TEXTS, GOLDENS[name]["ids"], strict=True):
        # transformers puts a second BOS before one that is written out in the text
        assert tokenizer.encode(text) == (ids[1:] if text.startswith("<bos>") and ids[:2] == [2, 2] else ids)
    chat = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]
    prompt = tokenizer.apply_chat_template(chat)
    assert prompt == GOLDENS[name]["chat"]
    assert tokenizer.encode_chat(chat).count(2) == prompt.count("<bos>") + prompt.count("<|im_end|>")


@pytest.mark.parametrize("name", GOLDENS)
def test_decodes_as_the_library(name: str) -> None:
    directory = DATA / "tiny" / "tokenizers" / name
    tokenizer, library = load(directory), Backend.from_file(str(directory / "tokenizer.json"))
    for text in TEXTS:
        ids = tokenizer.encode(text)
        for skip in (True, False):
            assert tokenizer.decode(ids, skip_special_tokens=skip) == library.decode(ids, skip_special_tokens=skip)


def test_end_ids_of_every_source(qwen: Path) -> None:
    rewrite(qwen / "tokenizer_config.json", eos_token="<|pad|>")
    assert load(qwen).end_ids == {0, 2, 3}  # <|endoftext|>, <|im_end|> by name and <|pad|> by config
    parts = {"config": {"eos_token_id": 10, "text_config": {"eos_token_id": [11]}}}
    assert load(qwen, **parts, generation_config={"eos_token_id": [12, 13]}).end_ids == {0, 2, 3, 10, 11, 12, 13}


def test_add_bos_token_comes_before_the_post_processor(qwen: Path) -> None:
    assert load(qwen).bos_id is None
    rewrite(qwen / "tokenizer_config.json", bos_token="<|im_start|>", add_bos_token=True)
    assert load(qwen).encode("a")[0] == 1
    rewrite(qwen / "tokenizer_config.json", add_bos_token=None)
    assert load(qwen).encode("a")[0] != 1
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    rewrite(qwen / "tokenizer.json", post_processor=template)
    assert load(qwen).encode("a")[0] == load(qwen).bos_id == 0
    rewrite(qwen / "tokenizer_config.json", add_bos_token=False)
    assert load(qwen).encode("a")[0] != 0


def test_tokens_declared_beside_tokenizer_json(qwen: Path) -> None:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    decoder = {
        "384": {"content": "<think>", "special": False, **flags},
        "385": {"content": "<x>", "special": True, **flags},
    }
    rewrite(qwen / "tokenizer_config.json", added_tokens_decoder=decoder, eos_token={"content": "<end>", **flags})
    tokenizer = load(qwen)
    assert tokenizer.encode("<think><x><end>") == [384, 385, 386]
    assert tokenizer.decode([384, 385, 386]) == "<think>"
    assert 386 in tokenizer.end_ids
    assert tokenizer.vocab_size == 387


def test_truncation_and_padding_are_off(qwen: Path) -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    rewrite(qwen / "tokenizer.json", truncation=truncation)
    assert len(load(qwen).encode("a b c d e f")) > 2


def test_chat_template_of_every_place(qwen: Path) -> None:
    rewrite(qwen / "tokenizer_config.json", chat_template=None)
    assert load(qwen).chat_template is None
    rewrite(qwen / "chat_template.json", chat_template="of its own json")
    assert load(qwen).chat_template == "of its own json"
    named = [{"name": "default", "template": "named"}, {"name": "tool_use", "template": "tools"}]
    rewrite(qwen / "tokenizer_config.json", chat_template=named)
    assert load(qwen).apply_chat_template([]) == "named"
    assert load(qwen).apply_chat_template([], tools=[{"name": "f"}]) == "tools"
    (qwen / "chat_template.jinja").write_text("of the file", encoding="utf-8")
    assert load(qwen).chat_template == "of the file"
    assert load(qwen).apply_chat_template([], tools=[{"name": "f"}], chat_template="given") == "given"


def test_special_tokens_map_names_tokens(qwen: Path) -> None:
    rewrite(qwen / "tokenizer_config.json", eos_token=None)
    rewrite(qwen / "special_tokens_map.json", eos_token="<|pad|>", pad_token="<|pad|>")
    assert load(qwen).special_tokens == {"eos_token": "<|pad|>", "pad_token": "<|pad|>"}


def test_missing_tokenizer_json_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer.json.*save_pretrained"):
        load(tmp_path)
    (tmp_path / "tokenizer.model").touch()
    with pytest.raises(TokenizerError, match=r"no tokenizer.json; found tokenizer.model"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": 3}'])
def test_damaged_files_are_corrupt(qwen: Path, name: str, content: str) -> None:
    if content == '{"model": 3}' and name != "tokenizer.json":
        return
    (qwen / name).write_text(content)
    with pytest.raises(CorruptFile, match=re.escape(name)):
        load(qwen)


@pytest.mark.parametrize(
    "changes",
    [
        {"eos_token": 5},
        {"added_tokens_decoder": {"x": {}}},
        {"chat_template": 5},
        {"chat_template": [{"name": "default", "template": 5}]},
    ],
)
def test_entries_of_another_type_are_refused(qwen: Path, changes: dict[str, Any]) -> None:
    rewrite(qwen / "tokenizer_config.json", **changes)
    with pytest.raises(CorruptFile, match="do not fit together"):
        load(qwen)


def test_a_panic_of_the_library_is_a_damaged_file(qwen: Path) -> None:
    content = json.loads((qwen / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["continuing_subword_prefix"] = "long"
    (qwen / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CorruptFile, match="do not fit together"):
        load(qwen)


def test_impossible_ids_are_no_tokens(qwen: Path) -> None:
    tokenizer = load(qwen, config={"eos_token_id": -1})
    assert tokenizer.id_to_token(-1) is None
    assert tokenizer.decode([-1, 1 << 40]) == ""


def test_other_decoders_are_refused(qwen: Path) -> None:
    backend = Backend.from_file(str(qwen / "tokenizer.json"))
    backend.decoder = decoders.WordPiece()
    backend.save(str(qwen / "tokenizer.json"))
    with pytest.raises(TokenizerError, match=r"'WordPiece'.* is not supported"):
        load(qwen)


def test_only_text_can_be_encoded(qwen: Path) -> None:
    tokenizer = load(qwen)
    with pytest.raises(TokenizerError, match="only text can be encoded; expected str; found int"):
        tokenizer.encode(3)  # type: ignore[arg-type]
    with pytest.raises(TokenizerError, match="lone surrogate"):
        tokenizer.encode("a\ud800")
