"""The documents that are made from the code are those of today's code."""

import pytest

import documents


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_committed_documents_are_current(name: str) -> None:
    made = documents.DOCUMENTS[name]()
    assert (documents.DOCS / name).read_text() == made, "run `python tests/documents.py` and review the difference"


def test_every_family_has_a_golden_and_a_map() -> None:
    goldens, mapped = documents.goldens(), {family for _, family, _ in documents.plans()}
    assert set(goldens) == mapped == set(documents.architectures.families())
