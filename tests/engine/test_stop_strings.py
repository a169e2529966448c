import random

import pytest

from ferrule.engine.stop_strings import StopStrings


def run(stops: list[str], texts: list[str]) -> tuple[list[str], bool]:
    stop = StopStrings(stops)
    shown = [stop.feed(text) for text in texts]
    return [*shown, stop.flush()], stop.found


def test_ends_before_the_stop_string() -> None:
    assert run(["END"], ["abcENDdef"]) == (["abc", ""], True)
    assert run(["END"], ["abE", "N", "Dx", "more"]) == (["ab", "", "", "", ""], True)


def test_holds_back_only_what_may_become_one() -> None:
    assert run(["END"], ["aE", "Nx", "EN"]) == (["a", "ENx", "", "EN"], False)
    assert run(["aab"], ["aaa"]) == (["a", "aa"], False)


def test_none_passes_everything() -> None:
    assert run([], ["a", "b"]) == (["a", "b", ""], False)


def test_first_complete_one_counts() -> None:
    assert run(["abcde", "cd"], ["abcde"]) == (["ab", ""], True)
    assert run(["cd", "bcd"], ["abcde"]) == (["a", ""], True)  # end together: the longer
    assert run(["b", "a"], ["xab"]) == (["x", ""], True)


def test_one_character_and_its_repetition() -> None:
    assert run(["\n"], ["a\n", "b"]) == (["a", "", ""], True)
    assert run(["\n\n"], ["a\n", "b\n", "\n"]) == (["a", "\nb", "", ""], True)


@pytest.mark.parametrize("seed", range(20))
def test_cutting_the_text_changes_nothing(seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(100):
        text = "".join(choice.choices("ab", k=20))
        stops = ["".join(choice.choices("ab", k=choice.randrange(1, 6))) for _ in range(choice.randrange(1, 4))]
        ends = [end for end in range(1, 21) if text[:end].endswith(tuple(stops))]
        expected = text
        if ends:
            longest = max((stop for stop in stops if text[: ends[0]].endswith(stop)), key=len)
            expected = text[: ends[0] - len(longest)]
        cuts = sorted(choice.choices(range(21), k=4))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, 20], strict=True)]
        shown, found = run(stops, parts)
        assert ("".join(shown), found) == (expected, bool(ends)), (stops, parts)
        so_far = ""
        for piece in shown:
            so_far += piece
            assert expected.startswith(so_far)
