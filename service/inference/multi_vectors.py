"""Vectors of the tokens of queries and documents, and scores of these (MaxSim)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models.outputs.names import MULTI
from models.sentence_transformers.multi_vector import TextRole
from models.sentence_transformers.multi_vector_tokens import MultiVectorTokens
from models.vectors import Floats, maxsim
from service.errors import EncodingFailed
from service.inference.pipeline import Pipeline
from service.inputs.options import Input, InputOptions
from service.inputs.text_pair import TextPair
from service.inputs.tokenized_input import TokenizedInput
from service.request.limits import check_values
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

_BYTES_PER_NUMBER = 8  # as float32, in the engine's response and without what is skipped
_FEW_OPERATIONS = 1 << 20  # multiplications; fewer cost less than handing them to a thread


@dataclass(frozen=True)
class TextVectors:
    """The tokenized texts, and for each the vectors of its tokens that have one: (n, D)."""

    rows: list[TokenizedInput]
    vectors: list[Floats]


class MultiVectors:
    """Computes the vectors of a multi-vector model, for every API."""

    def __init__(self, pipeline: Pipeline, tokens: MultiVectorTokens | None, dim: int) -> None:
        """tokens: None for another kind of model. dim: of a vector."""
        self._pipeline, self._tokens, self.dim = pipeline, tokens, dim

    @property
    def offered(self) -> bool:
        """Whether the model is one of these."""
        return self._tokens is not None

    async def vectors(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        max_values: int,
    ) -> TextVectors:
        """Compute the vectors of inputs, all of which are queries, or all documents.

        The prompt tells which; without one they are documents. max_values: limit of the numbers in
        a response.
        Raises BadRequest for a model of another kind.
        """
        tokens = self._checked_tokens()
        role = text_role(options)
        rows = await self._read(context, inputs, options, role)
        return await self._compute(context, rows, [role] * len(rows), tokens, max_values)

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
        queries = list(dict.fromkeys(pair.first for pair in pairs))
        documents = list(dict.fromkeys(pair.second or "" for pair in pairs))
        both = await self.query_document_vectors(context, queries, documents, options)
        query_of = dict(zip(queries, both[0].vectors, strict=True))
        index_of = {text: index for index, text in enumerate(documents)}
        indices = [index_of[pair.second or ""] for pair in pairs]
        compared = [
            (query_of[pair.first], both[1].vectors[index])
            for pair, index in zip(pairs, indices, strict=True)
        ]
        return [both[1].rows[index] for index in indices], await self.compare(compared)

    async def query_document_vectors(
        self,
        context: RequestContext,
        queries: Sequence[str],
        documents: Sequence[str],
        options: InputOptions,
    ) -> tuple[TextVectors, TextVectors]:
        """Compute the vectors of queries and of documents in one pass.

        options: of the documents; a query is cut where it is too long. An error's index is that
        of the document.
        """
        tokens, count = self._checked_tokens(), len(queries)
        query_options = InputOptions(truncate=True, role="query")
        rows = await self._read(context, queries, query_options, "query")
        rows += await self._read(context, documents, options, "document")
        query: TextRole = "query"
        document: TextRole = "document"
        roles = [query] * count + [document] * len(documents)
        try:
            both = await self._compute(context, rows, roles, tokens)
        except EncodingFailed as error:
            if error.index is not None:
                error.index = max(error.index - count, 0)
            raise
        return (
            TextVectors(both.rows[:count], both.vectors[:count]),
            TextVectors(both.rows[count:], both.vectors[count:]),
        )

    async def compare(self, pairs: Sequence[tuple[Floats, Floats]]) -> Floats:
        """Score pairs of the vectors of a query and a document, in a thread if they are many."""
        operations = sum(len(query) * document.size for query, document in pairs)
        mean = self._checked_tokens().options.mean_scores
        work: Callable[[], Floats] = partial(_scores, pairs, mean)
        return await run_in_thread(work, operations <= _FEW_OPERATIONS)

    async def _read(
        self,
        context: RequestContext,
        inputs: Sequence[Input],
        options: InputOptions,
        role: TextRole,
    ) -> list[TokenizedInput]:
        tokens = self._checked_tokens()
        limit = tokens.max_length(role)
        options = replace(options, max_length=min(options.max_length or limit, limit))
        rows = await self._pipeline.reader.read(context, inputs, options)
        return [
            replace(row, ids=np.array(tokens.expand(row.ids.tolist(), role), dtype=np.int32))
            if isinstance(item, str)
            else row
            for item, row in zip(inputs, rows, strict=True)
        ]

    async def _compute(
        self,
        context: RequestContext,
        rows: list[TokenizedInput],
        roles: Sequence[TextRole],
        tokens: MultiVectorTokens,
        max_values: int | None = None,
    ) -> TextVectors:
        masks = [tokens.has_vector(row.ids, role) for row, role in zip(rows, roles, strict=True)]
        numbers = self.dim * sum(map(len, masks))
        if max_values is None:  # scores will be returned, and not the vectors
            context.memory.grow(_BYTES_PER_NUMBER * numbers)
        else:
            check_values(self.dim * int(sum(mask.sum() for mask in masks)), max_values)
            context.memory.grow_by_numbers(numbers)
        outputs = await self._pipeline.outputs(context, rows, [MULTI])
        vectors = [text.multi for text in outputs if text.multi is not None]
        kept = [part[mask] for part, mask in zip(vectors, masks, strict=True)]
        return TextVectors(rows, kept)

    def _checked_tokens(self) -> MultiVectorTokens:
        if self._tokens is None:
            self._pipeline.check_outputs([MULTI])
            raise AssertionError("the model has no vectors of tokens")
        return self._tokens


def text_role(options: InputOptions) -> TextRole:
    """Return the role of inputs: by the prompt, else that of a document."""
    return "query" if "query" in (options.role, options.prompt_name) else "document"


def _scores(pairs: Sequence[tuple[Floats, Floats]], mean: bool) -> Floats:
    sums = np.array([maxsim(query, document) for query, document in pairs], dtype=np.float64)
    counts = np.array([max(len(query), 1) for query, _ in pairs]) if mean else 1.0
    scores: Floats = (sums / counts).astype(np.float32)
    return scores
