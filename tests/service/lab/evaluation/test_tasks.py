"""Tasks of a file: every format, and their scores."""

from pathlib import Path

import click
import numpy as np
import pytest

from embedwell_lab.evaluation.tasks import (
    Similarity,
    read_analogies,
    read_classification,
    read_clustering,
    read_similarity,
)

pytestmark = pytest.mark.full

FORMATS = {
    "plain.csv": 'a cat,"one, two",5.0\na dog,a ship,0.5\n',
    "sts.tsv": (
        "g\tf\t2012\t1\t5.0\ta cat\tone, two\ng\tf\t2012\t2\t0.5\ta dog\ta ship\tsource\tsource\n"
    ),
    "named.csv": 'x,score,sentence1,sentence2\ndev,5.0,a cat,"one, two"\ndev,0.5,a dog,a ship\n',
    "wordsim.csv": 'Word 1,Word 2,Human (mean)\na cat,"one, two",5.00\na dog,a ship,0.5\n',
    "SimLex-999.txt": (
        "word1\tword2\tPOS\tSimLex999\tconc\na cat\tone, two\tN\t5\t1\na dog\ta ship\tN\t0.5\t2\n"
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_pairs_are_read_from_every_common_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FORMATS[name])
    task = read_similarity(path)
    assert task.name == f"similarity {name}"
    first, second = task.inputs
    assert (*first.texts,) == ("a cat", "a dog")
    assert (*second.texts,) == ("one, two", "a ship")
    assert task.expected == (5.0, 0.5)


def test_a_quotation_mark_between_tabs_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text('"Yes\tno\t1\nhe said "no"\tno\t2\n')
    assert read_similarity(path).first == ('"Yes', 'he said "no"')


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a,b,high\n", "row 1: expected two texts and a number; add a header"),
        ("a,b,1\nc,d\n", "row 2: expected two texts"),
        ("a,b,1\nc,d,1\n", "at least two pairs with different scores"),
        ("", "at least two pairs"),
    ],
)
def test_a_file_without_pairs_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(content)
    with pytest.raises(click.ClickException, match=problem):
        read_similarity(path)


def test_scores_are_correlations_of_the_cosines() -> None:
    angles = np.array([0.0, 0.6, 1.2, 3.0])
    first = np.tile(np.array([[2, 0]], dtype=np.float32), (4, 1))
    second = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    texts = ["t"] * 4
    order = Similarity("order", texts, texts, [9, 5, 4, 1]).scores(first, second)
    assert order["spearman"] == pytest.approx(100)
    assert order["pearson"] == pytest.approx(
        100 * np.corrcoef(np.cos(angles), [9, 5, 4, 1])[0, 1], abs=1e-4
    )
    swapped = Similarity("swapped", texts, texts, [9, 4, 5, 1]).scores(first, second)
    assert swapped["spearman"] == pytest.approx(80)  # 1 - 6 * 2 / (4 * 15)


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


def write_table(path: Path, labels: str) -> Path:
    lines = [f"text {number},{label}" for number, label in enumerate(labels)]
    path.write_text("\n".join(["text,label", *lines]))
    return path


def around(*directions: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A vector near to an axis for each of its numbers."""
    noise = np.random.default_rng(0).normal(scale=0.05, size=(len(directions), 4))
    vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]] = (
        np.eye(4)[list(directions)] + noise
    ).astype(np.float32)
    return vectors


def test_clusters_that_are_the_labels_have_full_scores(tmp_path: Path) -> None:
    task = read_clustering(write_table(tmp_path / "t.csv", "xxyyzz"), None, "label")
    assert [inputs.role for inputs in task.inputs] == ["clustering"]
    assert task.scores(around(2, 2, 0, 0, 1, 1)) == pytest.approx({"v_measure": 100, "purity": 100})


def test_a_text_in_another_cluster_lowers_the_scores(tmp_path: Path) -> None:
    task = read_clustering(write_table(tmp_path / "t.csv", "xxxyyy"), None, "label")
    scores = task.scores(around(0, 0, 0, 0, 1, 1))
    assert scores["purity"] == pytest.approx(100 * 5 / 6)
    # Entropies in bits: labels 1, clusters 0.918, labels within clusters 4/6 * 0.811.
    homogeneity, completeness = 1 - 0.5409, 1 - 0.4591 / 0.9183
    harmonic = 2 * homogeneity * completeness / (homogeneity + completeness)
    assert scores["v_measure"] == pytest.approx(100 * harmonic, abs=0.1)


def test_a_classifier_finds_labels_that_vectors_tell_apart(tmp_path: Path) -> None:
    task = read_classification(write_table(tmp_path / "t.csv", "xxxxyyyy"), None, "label")
    assert [inputs.role for inputs in task.inputs] == ["classification"]
    right = task.scores(around(0, 0, 0, 0, 1, 1, 1, 1))
    assert right == pytest.approx({"accuracy": 100, "macro_f1": 100})
    mixed = task.scores(around(0, 1, 0, 1, 0, 1, 0, 1))
    assert mixed["accuracy"] < 80


def test_numbers_are_labels_too(tmp_path: Path) -> None:
    task = read_clustering(write_table(tmp_path / "t.csv", "1122"), None, "label")
    assert task.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "problem"), [("xx", "the same 'label'"), (["x", "", "y"], "1 texts have no 'label'")]
)
def test_texts_without_two_labels_are_refused(tmp_path: Path, labels: str, problem: str) -> None:
    with pytest.raises(click.ClickException, match=problem):
        read_clustering(write_table(tmp_path / "t.csv", labels), None, "label")


def test_a_label_of_one_text_cannot_be_learned(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="a label has only one text"):
        read_classification(write_table(tmp_path / "t.csv", "xxy"), None, "label")
