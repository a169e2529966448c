"""How the next token is chosen from the logits: options, and a sampler for one request.

The order and the meaning of the steps are those of transformers' logits processors: repetition penalty, temperature,
top_k, top_p, min_p, then a draw from the softmax of what is left.
"""

from __future__ import annotations

import difflib
import math
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FerruleError, OptionError

_FROM_GENERATION_CONFIG = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_IMPLY_SAMPLING = ("top_k", "top_p", "min_p")
_ALIASES = {"max_tokens": "max_new_tokens"}

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

# How a kernel draws one token, see csrc/params/sample.h.
DRAW = np.dtype([("uniform", "<f4"), ("scale", "<f4"), ("top_k", "<u4"), ("min_p", "<f4")])


@dataclass(frozen=True)
class GenerationOptions:
    """Options of one generation; `create` makes them from what a caller says and a model recommends.

    Attributes:
        max_new_tokens: end after so many tokens, at least 1.
        temperature: logits are divided by it; 0 takes the likeliest token (the lowest id on a tie).
        top_k: keep the k likeliest tokens and those that tie with the last; 0 keeps all.
        top_p: keep the likeliest tokens that together reach this probability, at least one.
        min_p: keep tokens at least this many times as likely as the likeliest.
        repetition_penalty: logits of tokens already in prompt or answer are divided by it if positive, multiplied by
            it otherwise; 1 does nothing.
        seed: 0 to 2^64 - 1; the same seed gives the same tokens. None takes a new one.
        stop: end before any of these texts.
        ignore_eos: do not end at end-of-turn tokens.

    Raises:
        OptionError: a value outside its range.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: str | tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        check_integer("max_new_tokens", self.max_new_tokens, 1, 2**31 - 1)
        _check_number("temperature", self.temperature, "a number from 0 up", lambda x: x >= 0)
        check_integer("top_k", self.top_k, 0, 2**31 - 1)
        _check_number("top_p", self.top_p, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        _check_number("min_p", self.min_p, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        _check_number(
            "repetition_penalty", self.repetition_penalty, "a number from 1e-9 to 1e9", lambda x: 1e-9 <= x <= 1e9
        )
        if self.seed is not None:
            check_integer("seed", self.seed, 0, 2**64 - 1)
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, Collection) or not all(isinstance(text, str) and text for text in stop):
            raise _out_of_range("stop", self.stop, "a text or texts, none empty")
        object.__setattr__(self, "stop", tuple(stop))
        _check_switch("ignore_eos", self.ignore_eos)

    @classmethod
    def create(cls, generation_config: Mapping[str, Any] | None = None, **given: Any) -> GenerationOptions:
        """The options `given`, completed by what the model's generation_config.json recommends.

        The model's recommendation is greedy unless it says do_sample. A caller's do_sample=False is temperature 0;
        do_sample=True, top_k, top_p or min_p without a temperature ask for sampling at the recommended one, or 1.
        Options that are None count as not given.

        Raises:
            TypeError: an option that does not exist.
            OptionError: a value outside its range, or two that contradict each other.
        """
        recommended = generation_config or {}
        known = {field.name for field in fields(cls)} | _ALIASES.keys() | {"do_sample"}
        for name in given.keys() - known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            raise TypeError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        options = {_ALIASES.get(name, name): value for name, value in given.items() if value is not None}
        do_sample = options.pop("do_sample", None)
        if do_sample is not None:
            _check_switch("do_sample", do_sample)
        temperature = options.get("temperature")
        if do_sample is not None and temperature is not None and bool(temperature) != do_sample:
            raise OptionError(f"do_sample={do_sample} contradicts temperature={temperature}", hint="Give one of them")
        for name in _FROM_GENERATION_CONFIG:
            if name not in options and (value := recommended.get(name)) is not None:
                try:
                    cls(**{name: value})
                except OptionError as error:
                    raise OptionError(f"the model's generation_config.json: {error}", hint=f"Give {name}") from error
                options[name] = value
        if temperature is None:
            if do_sample is None:
                do_sample = any(given.get(name) is not None for name in _IMPLY_SAMPLING)
                do_sample = do_sample or bool(recommended.get("do_sample"))
            options["temperature"] = options.get("temperature", 1.0) if do_sample else 0.0
        return cls(**options)


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raises OptionError for anything but a whole number in the range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise _out_of_range(name, value, f"a whole number from {low} to {high}")


def _check_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _out_of_range(name, value, "True or False")


def _check_number(name: str, value: object, expected: str, holds: Callable[[float], bool]) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and holds(value)):  # type: ignore[arg-type]
        raise _out_of_range(name, value, expected)


def _out_of_range(name: str, value: object, expected: str) -> OptionError:
    return OptionError(f"{name} is out of range", expected=expected, found=repr(value))


class Sampler:
    """Chooses the tokens of one request.

    The n-th choice draws from a counter-based generator (Philox) at counter n under the key `seed`: it depends on the
    seed and on n alone, not on other requests or on how many were drawn before.

    Attributes:
        seed: the one in use, fresh when the options name none.
    """

    def __init__(self, options: GenerationOptions, vocabulary: int) -> None:
        self.seed = secrets.randbits(63) if options.seed is None else int(options.seed)
        self._options = options
        self._vocabulary = vocabulary
        self._drawn = 0

    def sample(self, logits: Floats, history: Sequence[int] | Ids) -> int:
        """The next token's id.

        Args:
            logits: float32 [vocabulary], left as they are; -inf forbids a token.
            history: ids of the prompt and of what was generated.

        Raises:
            FerruleError: there is nothing to choose: a logit is NaN or infinite, or all are -inf.
        """
        assert logits.shape == (self._vocabulary,)
        options = self._options
        if options.repetition_penalty != 1.0 and len(history):
            seen = np.asarray(history, np.int64)
            logits = logits.copy()
            values = logits[seen]
            penalty = np.float32(options.repetition_penalty)
            logits[seen] = np.where(values < 0, values * penalty, values / penalty)
        best = int(np.argmax(logits))  # NaN wins, else the lowest of the largest
        if not math.isfinite(logits[best]):
            raise FerruleError(
                f"the model produced {logits[best]} as the logit of token {best}",
                hint="Run `ferrule verify MODEL` to find the operation at fault",
            )
        if options.temperature == 0:
            return best
        ids, weights = _candidates(logits, logits[best], options)
        cumulative = np.cumsum(weights.astype(np.float64))
        # Below the total even after rounding, so that the token found has a weight.
        draw = min(self._uniform() * cumulative[-1], np.nextafter(cumulative[-1], 0.0))
        return int(ids[np.searchsorted(cumulative, draw, side="right")])

    @property
    def needs_logits(self) -> bool:
        """Whether the options ask for what a DRAW cannot say."""
        return self._options.top_p < 1 or self._options.repetition_penalty != 1.0

    def draw(self) -> tuple[float, float, int, float]:
        """The next choice as a DRAW, for a kernel: of the same token that `sample` would take, up to rounding."""
        options = self._options
        if options.temperature == 0:
            return 0.0, 1.0, 1, 0.0
        return self._uniform(), _scale(options), min(options.top_k, self._vocabulary), options.min_p

    def _uniform(self) -> float:
        """The next number of this request, 0 up to 1."""
        number, self._drawn = self._drawn, self._drawn + 1
        return np.random.Generator(np.random.Philox(key=self.seed, counter=number)).random()


def _scale(options: GenerationOptions) -> float:
    return min(1 / options.temperature, 3e38)


def _candidates(logits: Floats, largest: np.float32, options: GenerationOptions) -> tuple[Ids, Floats]:
    """The ids (ascending) that temperature, top_k, top_p and min_p leave, with their probabilities up to one factor.

    All three filters keep a beginning of the order from likely to unlikely, so they look only at what lies above a
    threshold low enough, and a vocabulary of hundreds of thousands is never sorted.
    """
    scale = np.float32(_scale(options))

    def weigh(values: Floats) -> Floats:
        with np.errstate(over="ignore"):  # far below the largest: -inf, so weight 0
            weights: Floats = np.exp((values - largest) * scale)
        return weights

    ids: Ids | None = None
    if 0 < options.top_k < len(logits):
        ids = _top_k(logits, largest, options.top_k)
    if options.top_p < 1:
        ids = _top_p(logits, largest, ids, options.top_p, weigh)
    weights = weigh(logits if ids is None else logits[ids])
    if ids is None:
        ids = np.arange(len(logits))
    if options.min_p > 0:
        kept = weights >= options.min_p
        ids, weights = ids[kept], weights[kept]
    return ids, weights


def _top_k(logits: Floats, largest: np.float32, k: int) -> Ids:
    """The ids of the k largest logits and of those that equal the last."""
    ids = _above(logits, largest, lambda found: len(found) >= k)
    values = logits[ids]
    kept: Ids = ids[values >= np.partition(values, len(ids) - k)[len(ids) - k]]
    return kept


def _top_p(
    logits: Floats, largest: np.float32, ids: Ids | None, share: float, weigh: Callable[[Floats], Floats]
) -> Ids:
    """Of `ids`, or of all, the likeliest that have together this share of their weight; of equals the lower ones."""
    goal = share * weigh(logits if ids is None else logits[ids]).sum(dtype=np.float64)
    if ids is None:
        ids = _above(logits, largest, lambda found: weigh(logits[found]).sum(dtype=np.float64) >= goal)
    values = logits[ids]
    likely_first = np.sort(values)[::-1]
    last = int(np.searchsorted(np.cumsum(weigh(likely_first).astype(np.float64)), goal))
    cutoff = likely_first[min(last, len(ids) - 1)]
    is_kept = values > cutoff
    is_kept[np.flatnonzero(values == cutoff)[: last + 1 - int(np.count_nonzero(is_kept))]] = True
    kept: Ids = ids[is_kept]
    return kept


def _above(logits: Floats, largest: np.float32, enough: Callable[[Ids], bool]) -> Ids:
    """The ids of all logits above a threshold, which falls until they are `enough`."""
    span = 1.0
    while True:
        found = np.flatnonzero(logits >= largest - np.float32(span))
        if enough(found) or span == math.inf:
            return found
        span = span * 2 if span < 1024 else math.inf
