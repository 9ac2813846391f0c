"""Scores of documents by a model that reads all documents of a query together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from embedwell.errors import reindexed
from embedwell.http.request_context import RequestContext
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.listwise_reader import DocumentList, ListRows, check_listwise
from embedwell.inputs.options import InputOptions
from embedwell.inputs.text_pair import TextPair
from embedwell.limits.work_queue import Comparisons
from embedwell_models.outputs.listwise_scores import listwise_scores
from embedwell_models.outputs.names import LISTWISE
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vectors import Floats

_BYTES_PER_NUMBER = 24  # float32 of the engine and of a document, and float64
_OPERATIONS_PER_NUMBER = 64  # two cosines, each with a conversion to float64


@dataclass(frozen=True)
class ListwiseScores:
    """Scores documents by the cosine of vectors that depend on all documents of a query.

    dim: dimensions of a vector.
    """

    pipeline: Pipeline
    dim: int
    comparisons: Comparisons

    async def scores(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Return the tokenized document of each pair, and scores from -1 to 1 (B,).

        The documents of equal queries are one list. Raises BadRequest.
        """
        check_listwise(options)
        lists = _lists(pairs)
        context.memory.grow(_BYTES_PER_NUMBER * self.dim * (len(pairs) + len(lists)))
        tokenized = await self.pipeline.reader.read_lists(context, lists, options)
        blocks = [block for rows in tokenized for block in rows.blocks]
        with reindexed([*_first_indices(lists, tokenized)]):
            outputs = await self.pipeline.compute_outputs(context, blocks, [LISTWISE])
        vectors = [text.multi for text in outputs if text.multi is not None]
        steps = _scores(lists, tokenized, vectors)
        operations = len(pairs) * self.dim * _OPERATIONS_PER_NUMBER
        scores = await self.comparisons.run(steps, operations)
        rows: dict[int, InputRow] = {}
        for each, read in zip(lists, tokenized, strict=True):
            rows |= zip(each.indices, read.documents, strict=True)
        return [rows[index] for index in range(len(pairs))], scores


def _lists(pairs: Sequence[TextPair]) -> list[DocumentList]:
    indices: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        indices.setdefault(pair.first, []).append(index)
    return [
        DocumentList(query, [pairs[index].second or "" for index in each], each)
        for query, each in indices.items()
    ]


def _scores(
    lists: Sequence[DocumentList], tokenized: Sequence[ListRows], vectors: Iterable[Floats]
) -> Steps[Floats]:
    """Score the documents of a list in each step, in the order of the request: (B,).

    vectors: of each block.
    """
    blocks = iter(vectors)
    scores = np.empty(sum(len(each.indices) for each in lists), dtype=np.float32)
    for each, rows in zip(lists, tokenized, strict=True):
        scores[[*each.indices]] = listwise_scores([next(blocks) for _ in rows.blocks])
        yield
    return scores


def _first_indices(lists: Sequence[DocumentList], tokenized: Sequence[ListRows]) -> Sequence[int]:
    """Return the position of the first document of each block in the request."""
    return [
        each.indices[start]
        for each, rows in zip(lists, tokenized, strict=True)
        for start in accumulate(rows.sizes[:-1], initial=0)
    ]
