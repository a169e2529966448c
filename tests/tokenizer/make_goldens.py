"""Makes the goldens in tests/data/tokenizer with other people's tokenizers.

    PYTHONPATH=python python tests/tokenizer/make_goldens.py transformers SMOLLM2.gguf GEMMA3.gguf
    PYTHONPATH=python python tests/tokenizer/make_goldens.py llama_cpp

The first needs transformers and sentencepiece, the second llama-cpp-python and gguf. The files are those of the two
model packages, SmolLM2-135M-Instruct and Gemma 3 270M.
"""

import argparse
import json
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from texts import SPLIT_TEXTS, TEXTS

from ferrule.checkpoint import open_checkpoint
from ferrule.tokenizer.pre_tokenizers import PRE_TOKENIZERS

DATA = Path(__file__).parents[1] / "data"
# Pre-tokenizers where llama.cpp leaves out a step of the model's own tokenizer: composition, Falcon's digits.
NOT_LLAMA_CPP = ("mpt", "olmo", "command-r", "qwen2", "qwen35", "falcon")


def save(name: str, data: dict[str, Any]) -> None:
    path = DATA / "tokenizer" / f"{name}.json"
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def metadata(path: str) -> dict[str, Any]:
    return dict(open_checkpoint(path).metadata)


def from_transformers(smollm2_path: str, gemma_path: str) -> None:
    import sentencepiece
    import transformers
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    tiny = {}
    for directory in sorted((DATA / "tiny" / "tokenizers").iterdir()):
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(directory)
        chat = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Hi."}]
        tiny[directory.name] = {
            "ids": [tokenizer(text)["input_ids"] for text in TEXTS],
            "chat": tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True),
        }
    save("huggingface", tiny)

    def sentencepiece_ids(model: Any, is_control: Callable[[int], bool]) -> list[list[int]]:
        """SentencePiece does not look for control tokens in the text, so the text is cut at them first."""
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        control = {piece.piece: i for i, piece in enumerate(model.pieces) if is_control(piece.type)}
        cut = re.compile("(" + "|".join(sorted(map(re.escape, control), key=len, reverse=True)) + ")")
        parts = [[part for part in cut.split(text) if part] for text in TEXTS]
        return [[i for p in text for i in ([control[p]] if p in control else processor.encode(p))] for text in parts]

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((DATA / "tiny" / "tokenizers" / "llama" / "tokenizer.model").read_bytes())
    tiny = {
        "tokens": [piece.piece for piece in model.pieces],
        "scores": [piece.score for piece in model.pieces],
        "types": [piece.type for piece in model.pieces],
    }
    for name, prefix in (("ids", False), ("ids_with_space_prefix", True)):
        model.normalizer_spec.add_dummy_prefix = prefix
        tiny[name] = sentencepiece_ids(model, lambda kind: kind in (2, 3))
    save("sentencepiece", tiny)

    gemma = metadata(gemma_path)
    model.Clear()
    columns = [gemma[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type")]
    for token, score, kind in zip(*columns, strict=True):
        model.pieces.add(piece=token.replace(" ", "\u2581"), score=score, type=2 if token == "<unk>" else kind)
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.vocab_size = len(model.pieces)
    for name in ("unk", "bos", "eos", "pad"):
        setattr(model.trainer_spec, f"{name}_piece", f"<{name}>")
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = model.normalizer_spec.remove_extra_whitespaces = False
    save("gemma3", {"ids": sentencepiece_ids(model, lambda kind: kind in (2, 3))})

    smollm2 = metadata(smollm2_path)
    vocabulary = {token: i for i, token in enumerate(smollm2["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in smollm2["tokenizer.ggml.merges"]]
    special = [t for t, kind in zip(vocabulary, smollm2["tokenizer.ggml.token_type"], strict=True) if kind == 3]

    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    smollm = Tokenizer(models.BPE(vocabulary, merges))
    smollm.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), plain])
    smollm.add_special_tokens(special)
    save("smollm2", {"ids": [smollm.encode(text).ids for text in TEXTS]})

    falcon = Tokenizer(models.BPE())
    falcon.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            plain,
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    )  # as in the tokenizer.json of tiiuae/falcon-7b

    def split(tokenizer: Tokenizer, text: str) -> list[int]:
        composed = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        return [len(piece) for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(composed)]

    classes = {
        "mpt": transformers.GPTNeoXTokenizer,
        "olmo": transformers.GPTNeoXTokenizer,
        "command-r": transformers.CohereTokenizer,
        "qwen2": transformers.Qwen2Tokenizer,
        "qwen35": transformers.Qwen3_5Tokenizer,
    }
    backends = {name: made().backend_tokenizer for name, made in classes.items()} | {"falcon": falcon}
    save("splits_transformers", grouped({name: partial(split, backend) for name, backend in backends.items()}))


def grouped(splitters: dict[str, Callable[[str], list[int]]]) -> dict[str, Any]:
    """Byte lengths of the pieces of SPLIT_TEXTS, names that agree on all of them together."""
    groups: dict[str, list[str]] = {}
    for name, split in splitters.items():
        groups.setdefault(json.dumps([split(text) for text in SPLIT_TEXTS]), []).append(name)
    return {"groups": [{"names": names, "lengths": json.loads(lengths)} for lengths, names in groups.items()]}


def byte_alphabet() -> list[str]:
    """GPT-2's character for each byte."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(hidden)) for byte in range(256)]


def from_llama_cpp() -> None:
    """Reads the pieces off the ids: in a vocabulary of all that occurs, made by all merges, a piece is one token."""
    import gguf
    import llama_cpp

    alphabet, longest = byte_alphabet(), 26
    mapped = ["".join(alphabet[byte] for byte in text.encode()) for text in SPLIT_TEXTS]
    parts = {
        text[a:b] for text in mapped for a in range(len(text)) for b in range(a + 2, min(a + longest, len(text)) + 1)
    }
    tokens = sorted(alphabet) + sorted(parts, key=lambda part: (len(part), part))
    merges = [f"{token[:i]} {token[i:]}" for token in tokens for i in range(1, len(token))]

    def splitter(name: str) -> Callable[[str], list[int]]:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "vocabulary.gguf"
            writer = gguf.GGUFWriter(path, "llama")
            writer.add_block_count(1)
            writer.add_context_length(64)
            writer.add_embedding_length(64)
            writer.add_feed_forward_length(64)
            writer.add_head_count(1)
            writer.add_layer_norm_rms_eps(1e-5)
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre(name)
            writer.add_token_list(tokens)
            writer.add_token_merges(merges)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        return lambda text: [len(tokens[i]) for i in model.tokenize(text.encode(), add_bos=False, special=False)]

    names = [name for name in PRE_TOKENIZERS if name not in NOT_LLAMA_CPP]
    save("splits_llama_cpp", grouped({name: splitter(name) for name in names}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", choices=["transformers", "llama_cpp"])
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    {"transformers": from_transformers, "llama_cpp": from_llama_cpp}[arguments.source](*arguments.files)
