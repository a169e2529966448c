import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampling_cases import CASES

from ferrule.engine.sampling import GenerationOptions, Sampler, _candidates
from ferrule.errors import FerruleError, OptionError

GOLDENS = Path(__file__).parents[1] / "data" / "sampling.npz"


def reference(logits: np.ndarray, history: list[int], options: GenerationOptions) -> np.ndarray:
    """Probabilities [vocabulary] after transformers' processors, one after another, in float64 over sorted lists."""
    scores = logits.astype(np.float64)
    for token in set(history):
        scores[token] *= options.repetition_penalty if scores[token] < 0 else 1 / options.repetition_penalty
    scores = scores / options.temperature
    if options.top_k:
        scores[scores < np.sort(scores)[-min(options.top_k, len(scores))]] = -np.inf
    if options.top_p < 1:
        order = np.argsort(-scores, kind="stable")
        probabilities = softmax(scores)[order]
        before = np.cumsum(probabilities) - probabilities
        dropped = order[before >= options.top_p]
        scores[dropped[dropped != order[0]]] = -np.inf
    probabilities = softmax(scores)
    scores[probabilities < options.min_p * probabilities.max()] = -np.inf
    return softmax(scores)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def frequencies(logits: np.ndarray, history: list[int], draws: int, **options: Any) -> np.ndarray:
    sampler = Sampler(GenerationOptions(seed=0, **options), len(logits))
    return np.bincount([sampler.sample(logits, history) for _ in range(draws)], minlength=len(logits)) / draws


@pytest.mark.parametrize("case", CASES, ids=str)
def test_distribution(case: dict[str, Any]) -> None:
    """4,000 draws: the same tokens can come, and each frequency is within five standard deviations."""
    logits = np.random.default_rng(1).normal(0, 2, 40).astype(np.float32)
    history = [int(np.argmax(logits)), 3, 3, int(np.argmin(logits))]
    expected = reference(logits, history, GenerationOptions(**case))
    found = frequencies(logits, history, 4000, **case)
    assert not found[expected == 0].any()
    assert np.all(np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-9)


def test_distribution_equals_transformers() -> None:
    """The processors of transformers on the same logits: made once by tests/engine/make_goldens.py."""
    goldens = np.load(GOLDENS)
    cases = json.loads(str(goldens["cases"]))
    for n, case in enumerate(cases):
        expected = goldens["probabilities"][n]
        found = reference(goldens["logits"], goldens["history"].tolist(), GenerationOptions(**case))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-9, err_msg=str(case))


@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_candidates_of_large_vocabularies_are_exact(case: dict[str, Any], scale: float) -> None:
    """Nothing is drawn outside the candidates of a full sort, and the draws reach their edges."""
    random = np.random.default_rng(2)
    logits = (scale * random.normal(0, 2, 50_000)).astype(np.float32)
    logits[random.integers(0, 50_000, 100)] = -np.inf
    options = GenerationOptions(**(case | {"repetition_penalty": 1.0}))
    ids, weights = _candidates(logits, logits.max(), options)
    expected = reference(logits, [], options)
    kept = np.flatnonzero(expected > 1e-30)  # float32 has nothing below 1e-38
    assert np.all(np.diff(ids) > 0)
    # float32 sums may move the edge of top_p by a few of the least likely
    assert len(np.setxor1d(ids[weights > 1e-30 * weights.sum()], kept)) <= 1e-4 * len(kept) + (options.top_p < 1)
    both = np.intersect1d(ids, kept)
    found = weights.astype(np.float64) / weights.sum(dtype=np.float64)
    np.testing.assert_allclose(found[np.isin(ids, both)], expected[both], rtol=1e-3, atol=1e-12)


def test_top_k_keeps_ties() -> None:
    logits = np.array([1, 3, 2, 2, 2, 0], np.float32)
    assert set(np.flatnonzero(frequencies(logits, [], 500, temperature=1.0, top_k=2))) == {1, 2, 3, 4}


def test_top_p_breaks_ties_by_the_lowest_id() -> None:
    logits = np.zeros(10, np.float32)
    assert set(np.flatnonzero(frequencies(logits, [], 500, temperature=1.0, top_p=0.25))) == {0, 1, 2}


def test_greedy_takes_the_lowest_of_the_largest() -> None:
    sampler = Sampler(GenerationOptions(), 4)
    assert sampler.sample(np.array([1, 5, 5, 2], np.float32), []) == 1
    penalised = Sampler(GenerationOptions(repetition_penalty=1.3), 4)
    assert penalised.sample(np.array([1, 5, 5, 2], np.float32), [1]) == 2
    assert penalised.sample(np.array([-2, -1, -5, -2], np.float32), [1, 1, 1]) == 1
    assert penalised.sample(np.array([-1.2, -1, -5, -2], np.float32), [1, 1, 1]) == 0


def test_logits_are_left_alone() -> None:
    logits = np.array([1, -2, 3], np.float32)
    Sampler(GenerationOptions(temperature=0.5, top_k=2, repetition_penalty=2.0), 3).sample(logits, [0, 1, 2])
    assert logits.tolist() == [1, -2, 3]


def test_the_nth_token_depends_on_seed_and_n_alone() -> None:
    logits = np.zeros(1000, np.float32)
    first, again, other = (Sampler(GenerationOptions(temperature=1.0, seed=seed), 1000) for seed in (5, 5, 6))
    tokens = [first.sample(logits, []) for _ in range(20)]
    greedy = np.full(1000, -np.inf, np.float32)
    greedy[7] = 0
    assert [again.sample(greedy if n % 2 else logits, []) for n in range(20)][::2] == tokens[::2]
    assert [other.sample(logits, []) for _ in range(20)] != tokens
    assert tokens[:5] == [733, 248, 847, 53, 838]  # for good: NumPy keeps Philox as it is


def test_no_seed_takes_a_new_one_and_records_it() -> None:
    logits = np.zeros(1000, np.float32)
    first, second = (Sampler(GenerationOptions(temperature=1.0), 1000) for _ in range(2))
    assert first.seed != second.seed
    tokens = [first.sample(logits, []) for _ in range(5)]
    again = Sampler(GenerationOptions(temperature=1.0, seed=first.seed), 1000)
    assert [again.sample(logits, []) for _ in range(5)] == tokens


@pytest.mark.parametrize("temperature", [1e-45, 1e-30, 1e-6, 1e30])
def test_extreme_temperatures(temperature: float) -> None:
    logits = np.array([1, 2, 3, -np.inf], np.float32)
    sampler = Sampler(GenerationOptions(temperature=temperature, top_p=0.9, seed=0), 4)
    found = {sampler.sample(logits, []) for _ in range(50)}
    assert found == ({2} if temperature < 1 else {0, 1, 2})


def test_forbidden_tokens_never_come() -> None:
    logits = np.full(50, -np.inf, np.float32)
    logits[[4, 9]] = 1.0
    for case in CASES:
        assert set(np.flatnonzero(frequencies(logits, [], 50, **case))) <= {4, 9}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_and_infinity_are_errors(value: float, temperature: float) -> None:
    logits = np.array([1, 2, value, 3], np.float32)
    with pytest.raises(FerruleError, match=rf"produced {value} as the logit of token 2"):
        Sampler(GenerationOptions(temperature=temperature), 4).sample(logits, [0])
    with pytest.raises(FerruleError, match="produced -inf as the logit"):
        Sampler(GenerationOptions(temperature=temperature), 4).sample(np.full(4, -np.inf, np.float32), [])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_new_tokens", 0, "a whole number from 1 to"),
        ("max_new_tokens", 1.5, "a whole number"),
        ("max_new_tokens", True, "a whole number"),
        ("temperature", -0.1, "a number from 0 up"),
        ("temperature", float("nan"), "a number from 0 up"),
        ("temperature", float("inf"), "a number from 0 up"),
        ("temperature", "hot", "a number from 0 up"),
        ("top_k", -1, "a whole number from 0 to"),
        ("top_p", 1.1, "a number from 0 to 1"),
        ("top_p", -0.1, "a number from 0 to 1"),
        ("min_p", 2, "a number from 0 to 1"),
        ("repetition_penalty", 0, "a number from 1e-9 to 1e9"),
        ("repetition_penalty", 1e300, "a number from 1e-9 to 1e9"),
        ("seed", -1, "a whole number from 0 to 18446744073709551615"),
        ("seed", 2**64, "a whole number from 0 to"),
        ("stop", "", "a text or texts, none empty"),
        ("stop", ["a", ""], "a text or texts, none empty"),
        ("stop", [3], "a text or texts"),
        ("ignore_eos", 1, "True or False"),
    ],
)
def test_range_errors_name_option_range_and_value(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        GenerationOptions(**{name: value})
    assert str(caught.value).startswith(f"{name} is out of range; expected {expected}")
    assert str(caught.value).endswith(f"; found {value!r}")


def test_do_sample_is_a_switch() -> None:
    with pytest.raises(OptionError, match="do_sample is out of range; expected True or False; found 'no'"):
        GenerationOptions.create(do_sample="no")


def test_an_impossible_recommendation_is_the_models() -> None:
    with pytest.raises(OptionError, match=r"generation_config\.json: top_k is out of range.*\. Give top_k"):
        GenerationOptions.create({"top_k": -1})
    assert GenerationOptions.create({"top_k": -1}, top_k=5).top_k == 5


def test_stop_is_always_a_tuple() -> None:
    assert GenerationOptions(stop="a").stop == ("a",)
    assert GenerationOptions(stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]


def test_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"unknown option 'temprature'; did you mean 'temperature'\?"):
        GenerationOptions.create(temprature=1)
    with pytest.raises(TypeError, match=r"unknown option 'qqq'$"):
        GenerationOptions.create(qqq=1)


def test_defaults_come_from_the_generation_config() -> None:
    sampled = {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        "max_new_tokens": 9,
        "eos_token_id": 1,
    }
    assert GenerationOptions.create() == GenerationOptions()
    assert GenerationOptions.create({"temperature": 0.6, "top_k": 20}).temperature == 0
    options = GenerationOptions.create(sampled)
    assert (options.temperature, options.top_k, options.top_p, options.max_new_tokens) == (0.6, 20, 0.95, 256)
    assert GenerationOptions.create(sampled, temperature=0).temperature == 0
    assert GenerationOptions.create(sampled, do_sample=False).temperature == 0
    assert GenerationOptions.create(sampled, top_k=0).top_k == 0
    assert GenerationOptions.create({"do_sample": True}).temperature == 1


def test_sampling_options_ask_for_sampling() -> None:
    assert GenerationOptions.create(top_p=0.9) == GenerationOptions(temperature=1.0, top_p=0.9)
    assert GenerationOptions.create({"temperature": 0.7}, min_p=0.1).temperature == 0.7
    assert GenerationOptions.create(do_sample=True).temperature == 1
    assert GenerationOptions.create(seed=3).temperature == 0
    assert GenerationOptions.create(top_k=5, do_sample=False).temperature == 0


def test_aliases_and_none() -> None:
    assert GenerationOptions.create(max_tokens=7).max_new_tokens == 7
    assert GenerationOptions.create(temperature=None, top_k=None, stop=None) == GenerationOptions()


@pytest.mark.parametrize("given", [{"do_sample": False, "temperature": 0.5}, {"do_sample": True, "temperature": 0}])
def test_contradictions_are_errors(given: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"do_sample=.* contradicts temperature="):
        GenerationOptions.create(**given)
