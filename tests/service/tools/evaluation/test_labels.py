"""Clustering and classification of labelled texts."""

from pathlib import Path

import click
import numpy as np
import pytest

from embedwell.tools.evaluation.labels import read_classification, read_clustering

pytestmark = pytest.mark.full


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
