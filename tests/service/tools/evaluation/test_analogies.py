"""Analogies: the file, and 3CosAdd."""

from pathlib import Path

import click
import numpy as np
import pytest

from embedwell.tools.evaluation.analogies import read_analogies

pytestmark = pytest.mark.full


def test_a_given_word_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("man king woman queen\n")
    task = read_analogies(path)
    assert task.words == ["man", "king", "woman", "queen"]
    nearest_is_king = np.array([[1, 0], [1, 1], [1, 0.1], [-1, 0]], dtype=np.float32)
    assert task.scores(nearest_is_king)["accuracy"] == 100


def test_sections_are_scored_apart(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(": right\na b c d\na b c d\n\n: wrong\na b c e\n")
    task = read_analogies(path)
    (inputs,) = task.inputs
    assert inputs.texts == ["a", "b", "c", "d", "e"]
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0]], dtype=np.float32)
    assert task.scores(vectors) == pytest.approx(
        {"accuracy": 100 * 2 / 3, "right": 100, "wrong": 0}
    )


def test_the_answer_is_near_to_b_minus_a_plus_c(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text("a b c d\nb a d c\nc d e f\n")
    vectors = {
        "a": (1.0, 0, 0, 0),
        "b": (0, 1.0, 0, 0),
        "c": (0.8, 0, 0.6, 0),
        "d": (0, 0.8, 0.6, 0),
        "e": (0.6, 0, 0, 0.8),
        "f": (0, 0.6, 0, 0.8),
    }
    task = read_analogies(path)
    assert task.scores(np.array([vectors[word] for word in task.words], dtype=np.float32)) == {
        "accuracy": 100.0,
        "all": 100.0,
    }
    vectors["d"], vectors["f"] = vectors["f"], vectors["d"]
    swapped = task.scores(np.array([vectors[word] for word in task.words], dtype=np.float32))
    assert swapped["accuracy"] < 50


@pytest.mark.parametrize(
    ("content", "problem"),
    [("a b c\n", "line 1: expected four words"), (": family\n", "has no questions")],
)
def test_a_file_without_questions_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(content)
    with pytest.raises(click.ClickException, match=problem):
        read_analogies(path)
