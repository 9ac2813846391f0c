"""Retrieval: folders in the format of BEIR, nDCG and recall."""

import json
from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from embedwell_lab.evaluation.retrieval import Retrieval, rank, read_retrieval

pytestmark = pytest.mark.full

HEADER = "query-id\tcorpus-id\tscore\n"


def write_folder(folder: Path, relevance: str, documents: Mapping[str, Any]) -> Path:
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").write_text(
        "\n".join(json.dumps({"_id": name, **fields}) for name, fields in documents.items())
    )
    queries = [{"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels" / "test.tsv").write_text(HEADER + relevance)
    return folder


DOCUMENTS = {
    "d1": {"title": "A title", "text": "and a text"},
    "d2": {"title": "", "text": "only a text"},
    "d3": {"text": "no title"},
}


def test_titles_are_put_before_texts_and_unjudged_queries_left_out(tmp_path: Path) -> None:
    task = read_retrieval(write_folder(tmp_path, "q1\td1\t1\nq2\td3\t0\n", DOCUMENTS), "test")
    queries, documents = task.inputs
    assert (queries.role, queries.texts) == ("query", ["first"])
    assert documents.role == "document"
    assert documents.texts == ["A title and a text", "only a text", "no title"]


def test_scores_are_those_of_the_formulas(tmp_path: Path) -> None:
    relevance = "q1\td1\t1\nq1\td2\t2\nq2\td3\t1\n"
    task = read_retrieval(write_folder(tmp_path, relevance, DOCUMENTS), "test")
    documents = np.array([[0, 1], [0.6, 0.8], [1, 0]], dtype=np.float32)
    queries = np.array([[1, 0.1], [1, 0]], dtype=np.float32)  # both rank d3, d2, d1
    first = (2 / log2(3) + 1 / log2(4)) / (2 + 1 / log2(3))
    assert task.scores(queries, documents) == pytest.approx(
        {"ndcg@10": 100 * (first + 1) / 2, "recall@100": 100}
    )


def test_a_query_does_not_find_itself() -> None:
    task = Retrieval("r", {"q": "same", "d": "other"}, {"q": "same"}, {"q": {"d": 1}})
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    assert task.scores(vectors[:1], vectors)["ndcg@10"] == 100


def test_only_the_first_documents_count() -> None:
    names = [f"d{number}" for number in range(150)]
    angles = np.linspace(0, 1, len(names))
    documents = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    judged = {"d5": 1, "d99": 1, "d100": 1, "d149": 1}
    task = Retrieval("r", dict.fromkeys(names, ""), {"q": ""}, {"q": judged})
    scores = task.scores(np.array([[1, 0]], dtype=np.float32), documents)
    assert scores["recall@100"] == 50
    ideal = sum(1 / log2(place + 2) for place in range(4))
    assert scores["ndcg@10"] == pytest.approx(100 / log2(7) / ideal)


def test_the_nearest_come_first() -> None:
    rng = np.random.default_rng(1)
    queries, documents = rng.normal(size=(70, 8)), rng.normal(size=(300, 8))
    found = list(rank(queries.astype(np.float32), documents.astype(np.float32)))
    expected = np.argsort(-(queries @ documents.T), axis=1)[:, :101]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("corpus.jsonl", '{"_id": 1, "text": "a"}', "line 1: '_id' must be a string"),
        ("queries.jsonl", '{"_id": "q1"', "line 1: not JSON"),
        ("queries.jsonl", "[]", "line 1: not a JSON object"),
        ("qrels/test.tsv", HEADER + "q1\td1\n", "line 2: expected a query's id"),
        ("qrels/test.tsv", HEADER + "q1\td1\t0\n", "no query with a relevant document"),
    ],
)
def test_what_is_wrong_in_a_folder_is_named(
    tmp_path: Path, file: str, content: str, problem: str
) -> None:
    folder = write_folder(tmp_path, "q1\td1\t1\n", DOCUMENTS)
    (folder / file).write_text(content)
    with pytest.raises(click.ClickException, match=problem):
        read_retrieval(folder, "test")


def test_a_missing_split_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "q1\td1\t1\n", DOCUMENTS)
    with pytest.raises(click.ClickException, match=r"dev\.tsv cannot be read: No such file"):
        read_retrieval(folder, "dev")
