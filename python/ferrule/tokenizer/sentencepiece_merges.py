"""The merge list that SentencePiece BPE implies: it stores only a score for each piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2^64
_ID_BITS = 21
_BUCKET_BITS = 22


def merges_from_scores(
    tokens: Sequence[str], scores: NDArray[np.float32], mergeable: NDArray[np.bool_]
) -> list[tuple[str, str]]:
    """All pairs of mergeable tokens that join to a third, best first.

    SentencePiece joins the neighbours whose union scores highest. With the pairs ordered by the score of their union,
    ordinary BPE does the same (pairs of one union: by the ids of left and right, as Hugging Face's converter does).

    All are looked up at once by hashes, several times as fast as a loop over strings for Gemma's 262,144 tokens. A
    false hit cannot pass unseen: `tokenizers` refuses a merge whose union is no token.

    Args:
        tokens: the vocabulary in the order of ids, at most 2^21.
        scores: [len(tokens)].
        mergeable: [len(tokens)], False for control, byte and user-defined tokens.
    """
    if len(tokens) > 1 << _ID_BITS:
        raise ValueError(f"more than {1 << _ID_BITS} tokens")
    ids = np.flatnonzero(mergeable)
    texts = [tokens[i] for i in ids.tolist()]
    whole, left, right = _known_cuts(texts)
    best_first = np.argsort(-scores[ids], kind="stable")
    rank = np.empty(len(ids), np.int64)
    rank[best_first] = np.arange(len(ids))
    key = np.sort(rank[whole] << (2 * _ID_BITS) | left << _ID_BITS | right)
    text_of = texts.__getitem__
    low = (1 << _ID_BITS) - 1
    return list(zip(map(text_of, (key >> _ID_BITS & low).tolist()), map(text_of, (key & low).tolist()), strict=True))


def _known_cuts(texts: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All cuts of a text into two that are texts too: numbers of the whole, of what is left and right of the cut.

    Every cut is looked up at once by a 64-bit polynomial hash.
    """
    characters = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32).astype(np.uint64) + np.uint64(1)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths)
    starts = ends - lengths

    n = len(characters)
    inverse_powers = _powers(pow(_BASE, -1, 1 << 64), n + 1)
    prefix_sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(characters * _powers(_BASE, n), dtype=np.uint64)])

    def hash_of(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.uint64]:
        hashes: NDArray[np.uint64] = (prefix_sums[end] - prefix_sums[start]) * inverse_powers[start]
        return hashes

    hashes = hash_of(starts, ends)
    by_hash = np.argsort(hashes)
    sorted_hashes = hashes[by_hash]

    def find(wanted: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        at = np.minimum(np.searchsorted(sorted_hashes, wanted), len(sorted_hashes) - 1)
        return by_hash[at], sorted_hashes[at] == wanted

    cuts_per_token = lengths - 1
    whole = np.repeat(np.arange(len(texts)), cuts_per_token)
    cut = np.arange(len(whole)) + (starts + 1 - (np.cumsum(cuts_per_token) - cuts_per_token))[whole]
    left_hash, right_hash = hash_of(starts[whole], cut), hash_of(cut, ends[whole])
    bucket = np.zeros(1 << _BUCKET_BITS, np.bool_)  # a cheap test that most cuts fail
    shift = np.uint64(64 - _BUCKET_BITS)
    bucket[hashes >> shift] = True
    likely = bucket[left_hash >> shift] & bucket[right_hash >> shift]
    whole = whole[likely]
    (left, left_known), (right, right_known) = find(left_hash[likely]), find(right_hash[likely])
    known = left_known & right_known
    return whole[known], left[known], right[known]


def _powers(base: int, count: int) -> NDArray[np.uint64]:
    """base^0, base^1, ... modulo 2^64."""
    out: NDArray[np.uint64] = np.full(count, base, np.uint64)
    out[:1] = 1
    np.multiply.accumulate(out, out=out)
    return out
