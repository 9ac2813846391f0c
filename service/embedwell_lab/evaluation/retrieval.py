"""Retrieval task of a folder in BEIR's format: corpus.jsonl, queries.jsonl, qrels/test.tsv."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from embedwell_lab.evaluation.scoring import Inputs
from embedwell_lab.texts import Row, jsonl_rows, read_utf8
from embedwell_models.vectors import Floats, normalize

_DEPTH = 100  # documents to rank for a query
_CHUNK = 64  # queries whose cosines with all documents are in memory together

Relevance = Mapping[str, Mapping[str, int]]
"""For each query, the judged documents with their relevance."""


@dataclass(frozen=True)
class Retrieval:
    """Documents and queries by id, and the relevant documents of each query."""

    name: str
    documents: Mapping[str, str]
    queries: Mapping[str, str]
    relevance: Relevance

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the queries and the documents, with their roles."""
        return (
            Inputs(list(self.queries.values()), "query"),
            Inputs(list(self.documents.values()), "document"),
        )

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return nDCG@10 and recall@100, times 100.

        They are means over all queries. The gain of a document is its relevance, as in trec_eval.
        """
        ids = np.array(list(self.documents))
        ndcg, recall = [], []
        for query, ranking in zip(self.queries, rank(*map(normalize, vectors)), strict=True):
            judged = self.relevance[query]
            # In ArguAna queries are documents, too, and must not find themselves.
            gains = [judged.get(name, 0) for name in ids[ranking] if name != query]
            ndcg.append(_dcg(gains[:10]) / _dcg(sorted(judged.values(), reverse=True)[:10]))
            relevant = sum(gain > 0 for gain in judged.values())
            recall.append(sum(gain > 0 for gain in gains[:_DEPTH]) / relevant)
        return {"ndcg@10": 100 * float(np.mean(ndcg)), "recall@100": 100 * float(np.mean(recall))}


def rank(queries: Floats, documents: Floats) -> Iterator[npt.NDArray[np.int64]]:
    """Return the numbers of each query's nearest documents, nearest first: Q times (101,)."""
    depth = min(_DEPTH + 1, len(documents))
    for start in range(0, len(queries), _CHUNK):
        scores = queries[start : start + _CHUNK] @ documents.T
        nearest = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        order = np.argsort(-np.take_along_axis(scores, nearest, axis=1), axis=1, kind="stable")
        yield from np.take_along_axis(nearest, order, axis=1)


def _dcg(gains: Sequence[int]) -> float:
    return float(sum(gain / np.log2(rank + 2) for rank, gain in enumerate(gains)))


def read_retrieval(folder: Path, split: str) -> Retrieval:
    """Read a folder; queries without a relevant document are left out.

    Raises ClickException for a file that is missing or not in BEIR's format.

    split: name of the qrels file.
    """
    corpus, questions = folder / "corpus.jsonl", folder / "queries.jsonl"
    documents = {
        _field(corpus, row, "_id"): (
            f"{row[1].get('title') or ''} {_field(corpus, row, 'text')}".strip()
        )
        for row in jsonl_rows(corpus)
    }
    texts = {
        _field(questions, row, "_id"): _field(questions, row, "text")
        for row in jsonl_rows(questions)
    }
    relevance = _read_relevance(folder / "qrels" / f"{split}.tsv")
    queries = {
        query: texts[query]
        for query, judged in relevance.items()
        if query in texts and any(gain > 0 for gain in judged.values())
    }
    if not queries or not documents:
        raise click.ClickException(
            f"{folder} has no query with a relevant document; check its qrels"
        )
    return Retrieval(f"retrieval {folder.name}", documents, queries, relevance)


def _field(path: Path, row: Row, name: str) -> str:
    number, fields = row
    if not isinstance(value := fields.get(name), str):
        raise click.ClickException(f"{path}, line {number}: {name!r} must be a string")
    return value


def _read_relevance(path: Path) -> Relevance:
    relevance: dict[str, dict[str, int]] = {}
    for number, line in enumerate(read_utf8(path).split("\n"), start=1):
        if number == 1 or not line.strip():  # the first line names the columns
            continue
        try:
            query, document, gain = line.rstrip("\r").split("\t")
            relevance.setdefault(query, {})[document] = int(gain)
        except ValueError:
            raise click.ClickException(
                f"{path}, line {number}: expected a query's id, a document's id and a whole "
                "number, separated by tabs"
            ) from None
    return relevance
