"""Texts that a score embeds, and how often."""

from collections.abc import Sequence

import click
import numpy as np
import pytest

from embedwell.inputs.prompts import Role
from embedwell.tools.evaluation.pairs import Similarity
from embedwell.tools.evaluation.retrieval import Retrieval
from embedwell.tools.evaluation.scoring import score
from embedwell_models.vectors import Floats

pytestmark = pytest.mark.full

PAIRS = Similarity("pairs", ["a", "b", "a"], ["b", "a", "c"], [1, 2, 3])
SEARCH = Retrieval("search", {"d": "a", "e": "b"}, {"q": "a"}, {"q": {"d": 1}})


class Letters:
    """Embeds a letter as its own axis, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Role | None]] = []

    def embed(self, texts: Sequence[str], role: Role | None) -> Floats:
        self.calls.append((list(texts), role))
        vectors = np.eye(8, dtype=np.float32)[["abcdefgh".index(text) for text in texts]]
        return vectors + np.float32(0.1) * np.arange(8, dtype=np.float32)


def test_a_text_is_embedded_once_for_each_role() -> None:
    letters = Letters()
    results = list(score([PAIRS, PAIRS, SEARCH], letters.embed, "float32", [4, 8], ["int8"]))
    assert letters.calls == [
        (["a", "b", "c"], None),
        (["a"], "query"),
        (["a", "b"], "document"),
    ]
    assert [(result.task, result.variant.dimensions) for result in results] == [
        ("pairs", 4),
        ("pairs", 8),
        ("pairs", 4),
        ("pairs", 8),
        ("search", 4),
        ("search", 8),
    ]


def test_each_side_has_the_vectors_of_its_texts() -> None:
    (result,) = score([SEARCH], Letters().embed, "int8")
    assert result.main == ("ndcg@10", 100.0)
    other = Retrieval("search", SEARCH.documents, SEARCH.queries, {"q": {"e": 1}})
    (result,) = score([other], Letters().embed, "int8")
    assert 0 < result.main[1] < 100


def test_more_dimensions_than_there_are_is_refused() -> None:
    with pytest.raises(click.ClickException, match="9 dimensions were requested"):
        list(score([PAIRS], Letters().embed, "float32", [4, 9]))
