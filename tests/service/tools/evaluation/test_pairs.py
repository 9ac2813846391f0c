"""Similarity of pairs: every format, and its correlations."""

from pathlib import Path

import click
import numpy as np
import pytest

from embedwell.tools.evaluation.pairs import Similarity, read_similarity

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
