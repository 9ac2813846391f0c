"""POST /similarity: score one text against many, or two lists of texts or vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter

from embedwell.compute.multi_vectors import MultiVectors, TokenVectors
from embedwell.compute.request_limits import check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.compute.similarity_scores import (
    as_matrix,
    check_pairs,
    compute_sparse_vectors,
    similarity_scores,
)
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, located
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import (
    TextsByPath,
)
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_body import as_lists
from embedwell.routes.common.response_types import (
    describe_input,
    describe_inputs,
    describe_request,
)
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.scores import ranking
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.similarity_bodies import (
    Best,
    Details,
    SideInputs,
    SimilarityRequest,
    SimilarityResponse,
    SourceInputs,
)
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats, truncate_and_normalize

_SMALL_BODY = 1 << 16  # bytes; converting the vectors of a smaller body takes up to a millisecond
_NO_VECTORS: Floats = np.empty((0, 0), dtype=np.float32)
MAXSIM = "maxsim"


EmbeddedTexts = tuple[list[InputRow], Floats]
"""Tokenized texts and their vectors (B, D)."""

Compared = tuple[list[InputRow], list[InputRow], Floats | Sequence[Any]]
"""The tokenized texts of both sides, and an array of scores, or the closest b for each a."""


@dataclass(frozen=True)
class SimilarityService:
    """Compares texts and vectors."""

    model: ServedModel

    async def similarity(
        self, context: RequestContext, body: SimilarityRequest
    ) -> SimilarityResponse:
        """Respond to /similarity."""
        multi_vectors, max_values = self.model.multi_vectors, self.model.settings.max_values
        by_tokens = self.model.has_only_token_vectors or body.metric == MAXSIM
        a, b, scores = await (
            compare_tokens(multi_vectors, context, body, max_values)
            if by_tokens
            else self._compare_vectors(context, body)
        )
        if body.inputs is not None:
            scores = np.asarray(scores[0])  # of the only source sentence
            if not body.details:
                plain: list[float] = as_lists(scores)
                return plain
        details = Details()
        if body.details:
            prompt = self.model.reader.resolve_prompt(body.input_options())
            details = {"inputs": _describe(body, a, b), **describe_request(context, prompt)}
        if by_tokens:  # queries and documents have different prompts
            details.pop("prompt", None)
        metric = MAXSIM if by_tokens else body.metric
        if isinstance(scores, np.ndarray):
            return {"metric": metric, "scores": as_lists(scores), **details}
        return {"metric": metric, "top": [*scores], **details}

    async def _compare_vectors(self, context: RequestContext, body: SimilarityRequest) -> Compared:
        (a_rows, a), (b_rows, b) = await self._embed(context, body, *body.sides())
        if not (a_rows and b_rows):
            embedded = a if a_rows else None, b if b_rows else None
            small = context.body_bytes <= _SMALL_BODY
            a, b = await run_in_thread(_vector_inputs, body, *embedded, small=small)
        if a.shape[1] != b.shape[1]:
            raise BadRequest(
                f"a has {a.shape[1]} dimensions, but b has {b.shape[1]}; they must be equal",
                param="b",
            )
        return a_rows, b_rows, await self._scores(context, a, b, body)

    @property
    def _is_sparse(self) -> bool:
        names = self.model.pipeline.output_names
        return SPARSE in names and DENSE not in names

    async def _scores(
        self, context: RequestContext, a: Floats, b: Floats, body: SimilarityRequest
    ) -> Floats | Sequence[Any]:
        values = len(a) * (1 if body.mode == "pairwise" else len(b))
        max_values = self.model.settings.max_values
        if values <= max_values:  # otherwise similarity_scores rejects the request
            context.memory.grow_by_numbers(values)
        return await similarity_scores(a, b, body, max_values, self.model.comparisons)

    async def _embed(
        self,
        context: RequestContext,
        body: SimilarityRequest,
        first: TextsByPath,
        second: TextsByPath,
    ) -> tuple[EmbeddedTexts, EmbeddedTexts]:
        """Embed the texts of both inputs; normalise the vectors if the model normalises."""
        options, paths = body.input_options(count_dropped=body.details), [*first, *second]
        if not paths:
            return ([], _NO_VECTORS), ([], _NO_VECTORS)
        texts, count = [*first.values(), *second.values()], len(first)
        max_values = self.model.settings.max_values
        self.model.pipeline.check_outputs([SPARSE if self._is_sparse else DENSE])
        with located(paths):
            rows = await self.model.reader.read(context, texts, options)
            if self._is_sparse:
                sparse = await compute_sparse_vectors(
                    self.model.pipeline, context, rows, num_queries=count, max_values=max_values
                )
                vectors = as_matrix(context, sparse, max_values)
            else:
                vectors = await self.model.pipeline.dense(context, rows)
        normalize = self.model.description.recipe.normalize
        vectors = truncate_and_normalize(vectors, None, normalize)
        return (rows[:count], vectors[:count]), (rows[count:], vectors[count:])


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /similarity."""
    models = registry.choice(SimilarityService, DENSE, MULTI)
    routes = api_router("compare", always_computes=False)

    @routes.post("/similarity", summary="Compare texts or vectors")
    async def similarity(context: RequestDep, body: SimilarityRequest) -> SimilarityResponse:
        return await models.choose(body.model, body.requested_task).similarity(context, body)

    return routes


def _vector_inputs(
    body: SimilarityRequest, a: Floats | None, b: Floats | None
) -> tuple[Floats, Floats]:
    """Return the vectors of both inputs. a, b: those of inputs that are texts."""
    return (
        _vector_array(body.a, "a") if a is None else a,
        _vector_array(body.b, "b") if b is None else b,
    )


def _vector_array(rows: Any, name: str) -> Floats:
    """Convert a list of vectors to float32 (B, D); raises BadRequest.

    name: the field's name, for error messages.
    """
    for index, row in enumerate(rows):
        if not row:
            raise BadRequest(
                f"{name}[{index}] is empty; send a vector with at least one number",
                param=name,
                index=index,
            )
        if len(row) != len(rows[0]):
            raise BadRequest(
                f"{name}[{index}] has {len(row)} numbers, but {name}[0] has {len(rows[0])}; "
                "all vectors must have the same length",
                param=name,
                index=index,
            )
    with np.errstate(over="ignore"):
        vectors = np.array(rows, dtype=np.float64).astype(np.float32)
    for index in map(int, np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
        raise BadRequest(
            f"{name}[{index}] has a number that float32 cannot represent", param=name, index=index
        )
    return vectors


async def compare_tokens(
    multi_vectors: MultiVectors, context: RequestContext, body: SimilarityRequest, max_values: int
) -> Compared:
    """Score queries (`a`, or the source sentence) against documents (`b`, or the sentences).

    Raises BadRequest for vectors, for another metric, and for a model without token vectors.

    max_values: maximum count of numbers in the scores.
    """
    multi_vectors.check_offered()
    if "metric" in body.model_fields_set and body.metric != MAXSIM:
        raise BadRequest(f"metric must be {MAXSIM} for this model", param="metric")
    first, second = body.sides()
    queries, documents = _items(first, "a"), _items(second, "b")
    pairwise = body.mode == "pairwise"
    if pairwise:
        check_pairs(len(queries), len(documents), body)
    check_response_numbers(len(queries) * (1 if pairwise else len(documents)), max_values)
    context.memory.grow_by_numbers(len(queries) * len(documents))
    with located([*first, *second]):
        a, b = await multi_vectors.query_document_vectors(
            context, queries, documents, body.input_options()
        )
    scores = await _maxsim_scores(multi_vectors, a, b, body.mode)
    if body.top_k is None:
        return a.rows, b.rows, scores
    return a.rows, b.rows, [_top(row, ranking(row, body.top_k)) for row in scores]


def _items(side: TextsByPath, name: str) -> list[str | ImageInput]:
    if not side:
        raise BadRequest(f"{name} must be texts: {MAXSIM} compares their tokens", param=name)
    return [*side.values()]


async def _maxsim_scores(
    multi_vectors: MultiVectors, a: TokenVectors, b: TokenVectors, mode: str
) -> Floats:
    if mode == "pairwise":
        return await multi_vectors.maxsim_scores([*zip(a.vectors, b.vectors, strict=True)])
    pairs = [(query, document) for query in a.vectors for document in b.vectors]
    return (await multi_vectors.maxsim_scores(pairs)).reshape(len(a.vectors), len(b.vectors))


def _top(row: Floats, indices: Sequence[int]) -> list[Best]:
    return [{"index": index, "score": float(row[index])} for index in indices]


def _describe(
    body: SimilarityRequest, a: list[InputRow], b: list[InputRow]
) -> SideInputs | SourceInputs:
    if body.inputs is not None:
        return {"source_sentence": describe_input(a[0]), "sentences": describe_inputs(b)}
    inputs: SideInputs = {}
    if a:
        inputs["a"] = describe_inputs(a)
    if b:
        inputs["b"] = describe_inputs(b)
    return inputs
