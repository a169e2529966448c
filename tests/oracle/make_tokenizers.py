"""Makes tests/data/tiny/tokenizers: byte-level BPE as of GPT-2 and Qwen, SentencePiece BPE as of Llama 2 and Gemma.

    PYTHONPATH=tests python tests/oracle/make_tokenizers.py [--output FOLDER]

Needs tokenizers and sentencepiece. Both train on the same few sentences, to 384 tokens.
"""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tiny_models

CORPUS = [
    "The quick brown fox jumps over the lazy dog. ",
    "def add(a, b):\n    return a + b\n",
    "hello world, this is a small test of the tokenizer! ",
    "Numbers: 1 22 333 4444 and dates 2024-01-31.\n",
    "Größe, naïve café, 你好世界 and emoji 🙂. ",
    "There is no place like home; the end is the beginning.\n",
] * 40
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m['role']=='assistant' else m['role'])"
    " + '\n' + m['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)
BYTE_LEVEL_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
SENTENCEPIECE_SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
QWEN_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\u2581"


def byte_level(directory: Path, kind: str) -> None:
    tokenizer = Tokenizer(models.BPE())
    if kind == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated")
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=tiny_models.VOCABULARY,
        special_tokens=BYTE_LEVEL_SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(str(directory / "tokenizer.json"))
    save_config(
        directory,
        {
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|pad|>",
            "unk_token": None,
            "add_bos_token": False,
        },
        CHATML,
        {token: i for i, token in enumerate(BYTE_LEVEL_SPECIAL)},
    )


def sentencepiece_bpe(directory: Path, kind: str) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        vocab_size=tiny_models.VOCABULARY,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.9995,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        unk_piece="<unk>",
        user_defined_symbols=SENTENCEPIECE_SPECIAL[4:],
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        split_digits=True,
        normalization_rule_name="identity",
        hard_vocab_limit=True,
        minloglevel=2,
    )
    (directory / "tokenizer.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocabulary = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges(pieces), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    to_spaces = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", SPACE)
        tokenizer.decoder = decoders.Sequence(to_spaces)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        tokenizer.decoder = decoders.Sequence([*to_spaces, decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SENTENCEPIECE_SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)]
    )
    tokenizer.save(str(directory / "tokenizer.json"))
    save_config(
        directory,
        {
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "add_bos_token": True,
            "add_eos_token": False,
        },
        GEMMA if kind == "gemma" else LLAMA,
        {token: vocabulary[token] for token in SENTENCEPIECE_SPECIAL},
    )


def merges(pieces: sentencepiece.SentencePieceProcessor) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, in the order in which SentencePiece prefers them."""
    ids = {}
    for i in range(pieces.get_piece_size()):
        piece = pieces.id_to_piece(i)
        if not (pieces.is_byte(i) or pieces.is_control(i) or pieces.is_unknown(i) or piece in SENTENCEPIECE_SPECIAL):
            ids[piece] = i
    found = [
        (-pieces.get_score(ids[piece]), ids[piece[:k]], ids[piece[k:]], piece[:k], piece[k:])
        for piece in ids
        for k in range(1, len(piece))
        if piece[:k] in ids and piece[k:] in ids
    ]
    return [(left, right) for *_, left, right in sorted(found, key=lambda merge: merge[:3])]


def save_config(directory: Path, tokens: dict[str, Any], template: str, special: dict[str, int]) -> None:
    flags = {"special": True, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 4096,
        **tokens,
        "clean_up_tokenization_spaces": False,
        "chat_template": template,
        "added_tokens_decoder": {str(i): {"content": token, **flags} for token, i in special.items()},
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=tiny_models.DATA / "tokenizers")
    output = parser.parse_args().output
    for kind, make in (
        ("qwen", byte_level),
        ("gpt2", byte_level),
        ("llama", sentencepiece_bpe),
        ("gemma", sentencepiece_bpe),
    ):
        (output / kind).mkdir(parents=True, exist_ok=True)
        make(output / kind, kind)


if __name__ == "__main__":
    main()
