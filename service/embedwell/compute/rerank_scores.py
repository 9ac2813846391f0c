"""Scores of documents for queries by models that embed: by cosine, or of a list read together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import STEP_OPERATIONS
from embedwell.errors import reindexed, service_errors
from embedwell_models.outputs.names import DENSE, LISTWISE
from embedwell_models.read.inputs import InputOptions, InputRow, TextPair, first_indices
from embedwell_models.read.pairs_and_lists import DocumentList, ListRows, check_listwise
from embedwell_models.read.prompts import TASK_ROLES
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vectors import Floats, cosine, listwise_scores

_BYTES_PER_NUMBER = 24  # float32 of a text, float32 and two float64 of a pair, with reserve
_OPERATIONS_PER_NUMBER = 32  # converting a number to float64 takes as long as so many products


@dataclass(frozen=True)
class CosineScores:
    """Scores pairs of a query and a document by the cosine of their dense vectors.

    queries, documents: a model, or its adapters for queries and for documents.
    """

    queries: ServedModel
    documents: ServedModel

    async def scores(
        self, costs: RequestCosts, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Return the tokenized document of each pair, and scores from -1 to 1 (B,).

        A text has the model's own prompt for queries or for documents, and is read once, however
        many pairs have it. Raises BadRequest for a model without dense vectors.

        options: the maximum length counts the tokens of a document alone.
        """
        queries = first_indices(pair.first for pair in pairs)
        documents = first_indices(pair.second or "" for pair in pairs)
        dim = self.documents.description.dim
        costs.memory.grow(_BYTES_PER_NUMBER * dim * len(pairs))
        with reindexed([*queries.values(), *documents.values()]):
            rows, (a, b) = await self._vectors(costs, [*queries], [*documents], options)
        query_of = {text: index for index, text in enumerate(queries)}
        document_of = {text: index for index, text in enumerate(documents)}
        first = [query_of[pair.first] for pair in pairs]
        second = [document_of[pair.second or ""] for pair in pairs]
        operations = len(pairs) * dim * _OPERATIONS_PER_NUMBER
        scores = await self.documents.comparisons.run(_cosines(a, b, first, second), operations)
        return [rows[index] for index in second], scores

    async def _vectors(
        self,
        costs: RequestCosts,
        queries: Sequence[str],
        documents: Sequence[str],
        options: InputOptions,
    ) -> tuple[list[InputRow], tuple[Floats, Floats]]:
        """Return the tokenized documents, and the vectors of the queries and the documents.

        The index of an error counts the queries and then the documents.
        """
        for model in (self.queries, self.documents):
            model.pipeline.check_outputs([DENSE])
        count = len(queries)
        of_query = replace(options, max_length=options.max_pair)
        of_query = _for_task(of_query, self.queries, "retrieval.query")
        query_rows = await self.queries.reader.read(costs, queries, of_query)
        with reindexed(range(count, count + len(documents))):
            rows = await self.documents.reader.read(costs, documents, self._of_document(options))
        if self.queries is self.documents:
            vectors = await self.documents.pipeline.dense(costs, [*query_rows, *rows])
            return rows, (vectors[:count], vectors[count:])
        a = await self.queries.pipeline.dense(costs, query_rows)
        with reindexed(range(count, count + len(documents))):
            b = await self.documents.pipeline.dense(costs, rows)
        return rows, (a, b)

    def _of_document(self, options: InputOptions) -> InputOptions:
        options = _for_task(options, self.documents, "retrieval.passage")
        if options.max_length is None:
            return replace(options, max_length=options.max_pair)
        reader = self.documents.reader
        longest = options.max_length + reader.tokens_around(options)
        return replace(options, max_length=min(longest, options.max_pair or reader.max_length))


def _for_task(options: InputOptions, model: ServedModel, task: str) -> InputOptions:
    """Return the options for a task by Jina's name, or by that of the model's adapter."""
    task = model.adapter or task
    return replace(options, task=task, role=TASK_ROLES.get(task))


def _cosines(
    queries: Floats, documents: Floats, first: Sequence[int], second: Sequence[int]
) -> Steps[Floats]:
    """Compute the cosine of each pair, some pairs in a step.

    first, second: indices of the query and of the document of each pair.
    """
    scores = np.empty(len(first), dtype=np.float32)
    size = max(1, STEP_OPERATIONS // (documents.shape[1] * _OPERATIONS_PER_NUMBER))
    for start in range(0, len(first), size):
        part = slice(start, start + size)
        a, b = queries[[*first[part]]], documents[[*second[part]]]
        scores[part] = cosine(a[:, None], b[:, None])[:, 0, 0]
        yield
    return scores


@dataclass(frozen=True)
class ListwiseScores:
    """Scores documents by the cosine of vectors that depend on all documents of a query."""

    model: ServedModel

    async def scores(
        self, costs: RequestCosts, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Return the tokenized document of each pair, and scores from -1 to 1 (B,).

        The documents of equal queries are one list. Raises BadRequest.
        """
        with service_errors():
            check_listwise(options)
        lists, dim = _lists(pairs), self.model.description.dim
        costs.memory.grow(_BYTES_PER_NUMBER * dim * (len(pairs) + len(lists)))
        tokenized = await self.model.lists.read(costs, lists, options)
        blocks = [block for rows in tokenized for block in rows.blocks]
        with reindexed([*_block_starts(lists, tokenized)]):
            outputs = await self.model.pipeline.compute_outputs(costs, blocks, [LISTWISE])
        vectors = [text.multi for text in outputs if text.multi is not None]
        steps = _list_scores(lists, tokenized, vectors)
        operations = 2 * len(pairs) * dim * _OPERATIONS_PER_NUMBER  # two cosines
        scores = await self.model.comparisons.run(steps, operations)
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


def _list_scores(
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


def _block_starts(lists: Sequence[DocumentList], tokenized: Sequence[ListRows]) -> Sequence[int]:
    """Return the position of the first document of each block in the request."""
    return [
        each.indices[start]
        for each, rows in zip(lists, tokenized, strict=True)
        for start in accumulate(rows.sizes[:-1], initial=0)
    ]
