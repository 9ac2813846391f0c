"""A window of texts: each distinct one is computed once, in the order of lengths."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.text_encoder import (
    Advance,
    Finished,
    Pending,
    TokenVectors,
    Window,
    embed_window,
)
from embedwell_models.vectors import Floats


class Lengths:
    """An encoder whose vectors are the lengths of texts; it rejects texts that end with '!'."""

    dim = min_texts = 1
    description: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.computed: list[str] = []

    def begin(self, texts: Sequence[str], advance: Advance) -> Pending:
        self.computed += texts
        vectors = np.array([[len(text)] for text in texts], dtype=np.float32).reshape(-1, 1)
        computed: Future[tuple[Floats, Mapping[int, str]]] = Future()
        computed.set_result((vectors, {i: "loud" for i, t in enumerate(texts) if t.endswith("!")}))
        return computed


def test_each_distinct_text_is_computed_once_and_short_ones_first() -> None:
    encoder = Lengths()
    encoded = embed_window(encoder, ["ccc", "a", "ccc", "bb", "a"], lambda _: None)
    assert encoder.computed == ["a", "bb", "ccc"]
    assert encoded.dense.tolist() == [[3], [1], [3], [2], [1]]
    assert encoded.computed == 3 and not encoded.rejected


def test_every_copy_of_a_rejected_text_is_rejected() -> None:
    encoded = embed_window(Lengths(), ["no!", "yes", "no!"], lambda _: None)
    assert encoded.rejected == {0: "loud", 2: "loud"}


def test_results_are_kept_as_far_as_they_are_there_and_not_computed_again() -> None:
    texts = ["!", "bb", "ccc", "bb"]
    window, encoder = (
        Window.of(texts, Finished([2, 0], np.array([[3], [0]]), {1: "loud"})),
        Lengths(),
    )
    assert window.texts_left == 2
    window.begin(encoder, lambda _: None)
    assert encoder.computed == ["bb"]
    assert [result.rows for result in window.results()] == [[2, 0], [1]]
    encoded = window.result()
    assert encoded.dense.tolist() == [[0], [2], [3], [2]] and encoded.rejected == {0: "loud"}
    assert encoded.computed == 3


def test_a_window_without_texts_has_no_vectors() -> None:
    assert embed_window(Lengths(), [], lambda _: None).dense.shape == (0, 1)


def test_vectors_of_a_window_are_those_of_each_text_alone(
    small: LocalModel, texts: list[str]
) -> None:
    encoded = embed_window(small, texts, lambda _: None)
    alone = np.concatenate([small.embedder.embed([text]) for text in texts])
    np.testing.assert_array_equal(encoded.vectors, alone)


def some(*lengths: int) -> list[Floats]:
    return [np.full((n, 2), index, np.float32) for index, n in enumerate(lengths)]


def test_the_rows_of_all_inputs_follow_one_another() -> None:
    vectors = TokenVectors(some(2, 0, 1), 2)
    assert vectors.rows[:, 0].tolist() == [0, 0, 2] and vectors.lengths.tolist() == [2, 0, 1]
    assert TokenVectors([], 3).rows.shape == (0, 3)


@pytest.mark.parametrize(
    "chosen", [np.array([2, 0, 2]), [True, False, True]], ids=["index", "mask"]
)
def test_inputs_are_chosen_as_in_an_array(
    chosen: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> None:
    expected = np.arange(3)[chosen]
    assert [v[0, 0] for v in TokenVectors(some(2, 1, 1), 2)[chosen].each] == expected.tolist()
