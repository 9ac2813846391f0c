"""Token vectors of queries and documents, and their scores (MaxSim)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_limits import RequestCosts, check_response_numbers
from embedwell.compute.request_reader import RequestReader
from embedwell.compute.work_queue import STEP_OPERATIONS, ComparisonQueue
from embedwell.engine.wire.messages import TokenIds
from embedwell.errors import reindexed, service_errors
from embedwell_models.encoder.muvera import Muvera
from embedwell_models.encoder.token_pooling import MAX_TOKENS, MEMORY_PER_PAIR, pooling_steps
from embedwell_models.errors import InputError
from embedwell_models.model_files.multi_vector import TextRole
from embedwell_models.model_files.multi_vector_rules import MultiVectorRules
from embedwell_models.outputs.names import MULTI
from embedwell_models.read.inputs import (
    ImageContent,
    Input,
    InputOptions,
    InputRow,
    TextPair,
    first_indices,
)
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.vectors import Floats, maxsim

_BYTES_PER_NUMBER = 8  # float32, once in the engine's response and once without the skipped tokens
_OPERATIONS_PER_PAIR = 1 << 16  # calling numpy for a pair takes as long as so many multiplications
_OPERATIONS_PER_POOLED_PAIR = 1 << 8  # of tokens


@dataclass(frozen=True)
class TokenVectors:
    """Tokenized texts, and for each the vectors of its tokens that have one: (n, D).

    token_ids: for each text, the ids of those tokens (n,); empty if the vectors are pooled.
    """

    rows: list[InputRow]
    vectors: list[Floats]
    token_ids: list[TokenIds]

    @property
    def pooled(self) -> bool:
        """Whether the vectors are means of several tokens."""
        return len(self.token_ids) < len(self.vectors)

    def __getitem__(self, part: slice) -> "TokenVectors":
        """Return the vectors of a slice of the texts."""
        return TokenVectors(self.rows[part], self.vectors[part], self.token_ids[part])


class MultiVectors:
    """Computes token vectors of texts, for every API."""

    def __init__(
        self,
        reader: RequestReader,
        pipeline: Pipeline,
        rules: MultiVectorRules | None,
        dim: int,
        comparisons: ComparisonQueue,
    ) -> None:
        """rules: which tokens have a vector; None for a model without token vectors.

        dim: dimensions of a vector.
        """
        self._reader, self._pipeline = reader, pipeline
        self._rules, self.dim, self._comparisons = rules, dim, comparisons

    @property
    def offered(self) -> bool:
        """Whether the model has token vectors."""
        return self._rules is not None

    async def vectors(
        self,
        costs: RequestCosts,
        inputs: Sequence[Input],
        options: InputOptions,
        max_values: int | None,
        pool_factor: int = 1,
    ) -> TokenVectors:
        """Compute the vectors of inputs, all of which are queries, or all documents.

        The prompt decides which; without one they are documents. Raises BadRequest for a model
        without token vectors.

        max_values: maximum count of numbers in a response; None if it has other numbers.
        """
        role = text_role(options)
        rows = await self._read(costs, inputs, options, role)
        texts = await self._compute(costs, rows, [role] * len(rows), max_values)
        return await self.pool(costs, texts, pool_factor, role)

    async def pool(
        self, costs: RequestCosts, texts: TokenVectors, factor: int, role: TextRole
    ) -> TokenVectors:
        """Pool the vectors of each document; those of queries stay as they are.

        Raises BadRequest, Overloaded and TimedOut.
        """
        if role == "query" or factor == 1:
            return texts
        longest = max(map(len, texts.vectors), default=0)
        costs.memory.grow(MEMORY_PER_PAIR * min(longest, MAX_TOKENS) ** 2)
        operations = sum(_OPERATIONS_PER_POOLED_PAIR * len(each) ** 2 for each in texts.vectors)
        with service_errors():
            vectors = await self._comparisons.run(_pool(texts.vectors, factor), operations)
        return TokenVectors(texts.rows, vectors, [])

    async def encodings(self, vectors: Sequence[Floats], encoder: Muvera, role: TextRole) -> Floats:
        """Encode the token vectors of each text as one vector: (B, dimensions).

        Raises Overloaded and TimedOut.
        """
        operations = sum(encoder.operations(len(each)) for each in vectors)
        return await self._comparisons.run(_encode(vectors, encoder, role), operations)

    async def scores(
        self,
        costs: RequestCosts,
        pairs: Sequence[TextPair],
        options: InputOptions,
    ) -> tuple[list[InputRow], Floats]:
        """Score pairs of a query and a document; returns tokenized documents and scores (B,).

        A score sums over the query's vectors the largest product with a document's vector. If the
        model's files configure it, the sum is divided by the number of the query's vectors.
        """
        queries = first_indices(pair.first for pair in pairs)
        documents = first_indices(pair.second or "" for pair in pairs)
        options = replace(options, max_length=options.max_length or options.max_pair)
        with reindexed([*queries.values(), *documents.values()]):
            a, b = await self.query_document_vectors(costs, [*queries], [*documents], options)
        query_of = dict(zip(queries, a.vectors, strict=True))
        document_of = dict(zip(documents, zip(b.rows, b.vectors, strict=True), strict=True))
        texts = [document_of[pair.second or ""] for pair in pairs]
        compared = [
            (query_of[pair.first], vectors) for pair, (_, vectors) in zip(pairs, texts, strict=True)
        ]
        return [row for row, _ in texts], await self.maxsim_scores(compared)

    async def query_document_vectors(
        self,
        costs: RequestCosts,
        queries: Sequence[str | ImageContent],
        documents: Sequence[str | ImageContent],
        options: InputOptions,
    ) -> tuple[TokenVectors, TokenVectors]:
        """Compute the vectors of queries and of documents, those of all texts in one pass.

        The index of an error counts the queries and then the documents.

        options: options of the documents; a query that is too long is truncated.
        """
        count = len(queries)
        query_options = InputOptions(truncate=True, role="query")
        rows = await self._read(costs, queries, query_options, "query")
        with reindexed(range(count, count + len(documents))):
            rows += await self._read(costs, documents, options, "document")
        roles: list[TextRole] = ["query" if i < count else "document" for i in range(len(rows))]
        texts = await self._compute(costs, rows, roles)
        return texts[:count], texts[count:]

    async def maxsim_scores(self, pairs: Sequence[tuple[Floats, Floats]]) -> Floats:
        """Score pairs of a query's and a document's vectors (B,).

        Raises Overloaded if many pairs would wait too long, and TimedOut.
        """
        operations = sum(len(query) * document.size for query, document in pairs)
        operations += len(pairs) * _OPERATIONS_PER_PAIR
        mean = self._checked_rules().options.mean_scores
        return await self._comparisons.run(_scores(pairs, mean), operations)

    async def _read(
        self,
        costs: RequestCosts,
        inputs: Sequence[Input],
        options: InputOptions,
        role: TextRole,
    ) -> list[InputRow]:
        rules = self._checked_rules()
        limit = rules.max_length(role)
        options = replace(options, max_length=min(options.max_length or limit, limit))
        rows = await self._reader.read(costs, inputs, options)
        return [
            replace(row, ids=np.array(rules.expand(row.ids.tolist(), role), dtype=np.int32))
            if isinstance(item, str)
            else row
            for item, row in zip(inputs, rows, strict=True)
        ]

    async def _compute(
        self,
        costs: RequestCosts,
        rows: list[InputRow],
        roles: Sequence[TextRole],
        max_values: int | None = None,
    ) -> TokenVectors:
        """Compute the vectors of queries and documents, according to the roles of the rows."""
        rules = self._checked_rules()
        ids = [row.ids for row in rows]
        masks = [rules.has_vector(each, role) for each, role in zip(ids, roles, strict=True)]
        numbers = self.dim * sum(map(len, masks))
        if max_values is None:  # the response has scores, not vectors
            costs.memory.grow(_BYTES_PER_NUMBER * numbers)
        else:
            check_response_numbers(self.dim * int(sum(mask.sum() for mask in masks)), max_values)
            costs.memory.grow_by_numbers(numbers)
        outputs = await self._pipeline.compute_outputs(costs, rows, [MULTI])
        selected = [
            rules.select(text.multi, each, role)
            for text, each, role in zip(outputs, ids, roles, strict=True)
            if text.multi is not None
        ]
        return TokenVectors(
            rows, [vectors for vectors, _ in selected], [chosen for _, chosen in selected]
        )

    def check_offered(self) -> None:
        """Raise BadRequest for a model without token vectors."""
        self._pipeline.check_outputs([MULTI])

    def _checked_rules(self) -> MultiVectorRules:
        self.check_offered()
        assert self._rules is not None
        return self._rules


def text_role(options: InputOptions) -> TextRole:
    """Return the role of inputs that the prompt selects; by default they are documents."""
    return "query" if "query" in (options.role, options.prompt_name) else "document"


def _pool(vectors: Sequence[Floats], factor: int) -> Steps[list[Floats]]:
    pooled = list[Floats]()
    for index, each in enumerate(vectors):
        try:
            pooled.append((yield from pooling_steps(each, factor)))
        except InputError as error:
            error.index = index
            raise
    return pooled


def _encode(vectors: Sequence[Floats], encoder: Muvera, role: TextRole) -> Steps[Floats]:
    encode = encoder.query if role == "query" else encoder.document
    encodings = np.empty((len(vectors), encoder.dimensions), dtype=np.float32)
    for row, each in zip(encodings, vectors, strict=True):
        row[:] = encode(each)
        yield
    return encodings


def _scores(pairs: Sequence[tuple[Floats, Floats]], mean: bool) -> Steps[Floats]:
    sums = np.zeros(len(pairs))
    for index, (query, document) in enumerate(pairs):
        rows = max(1, STEP_OPERATIONS // max(document.size, 1))
        for start in range(0, len(query), rows):
            sums[index] += maxsim(query[start : start + rows], document)
            yield
    counts = np.array([max(len(query), 1) for query, _ in pairs]) if mean else 1.0
    scores: Floats = (sums / counts).astype(np.float32)
    return scores
