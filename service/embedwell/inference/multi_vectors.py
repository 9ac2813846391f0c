"""Vectors of the tokens of queries and documents, and scores of these (MaxSim)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from embedwell.engine.protocol.messages import TokenIds
from embedwell.errors import reindexed
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import Input, InputOptions
from embedwell.inputs.text_pair import TextPair
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import FEW_OPERATIONS, run_in_thread
from embedwell_models.outputs.names import MULTI
from embedwell_models.sentence_transformers.multi_vector import TextRole
from embedwell_models.sentence_transformers.multi_vector_rules import MultiVectorRules
from embedwell_models.vectors import Floats, maxsim

_BYTES_PER_NUMBER = 8  # as float32, in the engine's response and without what is skipped


@dataclass(frozen=True)
class TokenVectors:
    """The tokenized texts, and for each the vectors of its tokens that have one: (n, D).

    token_ids: of those tokens, for each text (n,).
    """

    rows: list[TokenizedInput]
    vectors: list[Floats]
    token_ids: list[TokenIds]

    def __getitem__(self, part: slice) -> "TokenVectors":
        """Return those of some of the texts."""
        return TokenVectors(self.rows[part], self.vectors[part], self.token_ids[part])


class MultiVectors:
    """Computes the vectors of texts' tokens, for every API."""

    def __init__(self, pipeline: Pipeline, rules: MultiVectorRules | None, dim: int) -> None:
        """rules: which tokens have a vector; None for another kind of model. dim: of a vector."""
        self._pipeline, self._rules, self.dim = pipeline, rules, dim

    @property
    def offered(self) -> bool:
        """Whether the model has such vectors."""
        return self._rules is not None

    @property
    def alone(self) -> bool:
        """Whether the model has no other vectors: ColBERT, but not BGE-M3."""
        return self._pipeline.output_names == (MULTI,)

    async def vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        max_values: int,
    ) -> TokenVectors:
        """Compute the vectors of inputs, all of which are queries, or all documents.

        The prompt tells which; without one they are documents. max_values: limit of the numbers in
        a response.
        Raises BadRequest for a model of another kind.
        """
        role = text_role(options)
        rows = await self._read(context, inputs, options, role)
        return await self._compute(context, rows, [role] * len(rows), max_values)

    async def scores(
        self,
        context: RequestContext,
        pairs: Sequence[TextPair],
        options: InputOptions,
    ) -> tuple[list[TokenizedInput], Floats]:
        """Return the tokenized documents of pairs of a query and a document, and scores: (B,).

        A score is the sum over the query's vectors of their largest product with the document's;
        divided by their number if the model's files say so.
        """
        queries = _first_indices(pair.first for pair in pairs)
        documents = _first_indices(pair.second or "" for pair in pairs)
        with reindexed([*queries.values(), *documents.values()]):
            a, b = await self.query_document_vectors(context, [*queries], [*documents], options)
        query_of = dict(zip(queries, a.vectors, strict=True))
        document_of = dict(zip(documents, zip(b.rows, b.vectors, strict=True), strict=True))
        texts = [document_of[pair.second or ""] for pair in pairs]
        compared = [
            (query_of[pair.first], vectors) for pair, (_, vectors) in zip(pairs, texts, strict=True)
        ]
        return [row for row, _ in texts], await self.maxsim_scores(compared)

    async def query_document_vectors(
        self,
        context: RequestContext,
        queries: Sequence[str],
        documents: Sequence[str],
        options: InputOptions,
    ) -> tuple[TokenVectors, TokenVectors]:
        """Compute the vectors of queries and of documents in one pass.

        options: of the documents; a query is cut where it is too long. The index of an error is
        that among the queries and then the documents.
        """
        count = len(queries)
        query_options = InputOptions(truncate=True, role="query")
        rows = await self._read(context, queries, query_options, "query")
        with reindexed(range(count, count + len(documents))):
            rows += await self._read(context, documents, options, "document")
        roles: list[TextRole] = ["query" if i < count else "document" for i in range(len(rows))]
        texts = await self._compute(context, rows, roles)
        return texts[:count], texts[count:]

    async def maxsim_scores(self, pairs: Sequence[tuple[Floats, Floats]]) -> Floats:
        """Score pairs of a query's and a document's vectors (B,), in a thread if they are many."""
        operations = sum(len(query) * document.size for query, document in pairs)
        mean = self._checked_rules().options.mean_scores
        work: Callable[[], Floats] = partial(_scores, pairs, mean)
        return await run_in_thread(work, operations <= FEW_OPERATIONS)

    async def _read(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        role: TextRole,
    ) -> list[TokenizedInput]:
        rules = self._checked_rules()
        limit = rules.max_length(role)
        options = replace(options, max_length=min(options.max_length or limit, limit))
        rows = await self._pipeline.reader.read(context, inputs, options)
        return [
            replace(row, ids=np.array(rules.expand(row.ids.tolist(), role), dtype=np.int32))
            if isinstance(item, str)
            else row
            for item, row in zip(inputs, rows, strict=True)
        ]

    async def _compute(
        self,
        context: RequestContext,
        rows: list[TokenizedInput],
        roles: Sequence[TextRole],
        max_values: int | None = None,
    ) -> TokenVectors:
        """Compute the vectors of queries and documents, as the roles of the rows say."""
        rules = self._checked_rules()
        masks = [rules.has_vector(row.ids, role) for row, role in zip(rows, roles, strict=True)]
        numbers = self.dim * sum(map(len, masks))
        if max_values is None:  # scores will be returned, and not the vectors
            context.memory.grow(_BYTES_PER_NUMBER * numbers)
        else:
            check_response_numbers(self.dim * int(sum(mask.sum() for mask in masks)), max_values)
            context.memory.grow_by_numbers(numbers)
        outputs = await self._pipeline.compute_outputs(context, rows, [MULTI])
        selected = [
            rules.select(text.multi, row.ids, role)
            for text, row, role in zip(outputs, rows, roles, strict=True)
            if text.multi is not None
        ]
        vectors, ids = zip(*selected, strict=True) if selected else ((), ())
        return TokenVectors(rows, [*vectors], [*ids])

    def check_offered(self) -> None:
        """Raise BadRequest for a model without such vectors."""
        self._pipeline.check_outputs([MULTI])

    def _checked_rules(self) -> MultiVectorRules:
        self.check_offered()
        assert self._rules is not None
        return self._rules


def text_role(options: InputOptions) -> TextRole:
    """Return the role of inputs: by the prompt, else that of a document."""
    return "query" if "query" in (options.role, options.prompt_name) else "document"


def _first_indices(texts: Iterable[str]) -> dict[str, int]:
    indices: dict[str, int] = {}
    for index, text in enumerate(texts):
        indices.setdefault(text, index)
    return indices


def _scores(pairs: Sequence[tuple[Floats, Floats]], mean: bool) -> Floats:
    sums = np.array([maxsim(query, document) for query, document in pairs], dtype=np.float64)
    counts = np.array([max(len(query), 1) for query, _ in pairs]) if mean else 1.0
    scores: Floats = (sums / counts).astype(np.float32)
    return scores
