"""POST /similarity: score one text against many, or two lists of texts or vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from embedwell.errors import BadRequest, located
from embedwell.http.request_context import RequestContext
from embedwell.inference.multi_vectors import MultiVectors, TokenVectors
from embedwell.inference.served_model import ServedModel
from embedwell.inference.similarity_scores import similarity_scores
from embedwell.inference.sparse_comparison import as_matrix, compute_sparse_vectors
from embedwell.inputs.input_row import InputRow
from embedwell.limits.request_limits import check_response_numbers
from embedwell.limits.run_in_thread import run_in_thread
from embedwell.routes.common.array_format import as_lists
from embedwell.routes.common.comparison_input import (
    TextsByPath,
    texts_by_path,
    vector_array,
)
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.response_types import (
    describe_input,
    describe_inputs,
    describe_request,
    describe_timing,
    describe_usage,
)
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.scores import ranking
from embedwell.routes.similarity_bodies import (
    Best,
    Details,
    Sentences,
    SideInputs,
    SimilarityRequest,
    SimilarityResponse,
    SimilarityScores,
    SourceInputs,
    Top,
)
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.vectors import Floats, truncate_and_normalize

_SMALL_BODY = 1 << 16  # bytes; converting the vectors of a smaller body takes up to a millisecond
_NO_VECTORS: Floats = np.empty((0, 0), dtype=np.float32)
MAXSIM = "maxsim"


EmbeddedTexts = tuple[list[InputRow], Floats]
"""Tokenized texts and their vectors (B, D)."""


@dataclass(frozen=True)
class SimilarityService:
    """Compares texts and vectors."""

    model: ServedModel

    async def similarity(
        self, context: RequestContext, body: SimilarityRequest
    ) -> SimilarityResponse:
        """Respond to /similarity."""
        multi_vectors, max_values = self.model.multi_vectors, self.model.settings.max_values
        if multi_vectors.alone or body.metric == MAXSIM:
            return await maxsim_similarity(multi_vectors, context, body, max_values)
        if body.inputs is not None:
            return await self._source_similarity(context, body, body.inputs)
        body.check_a_and_b()
        a_texts, b_texts = texts_by_path(body.a, "a"), texts_by_path(body.b, "b")
        (a_rows, a), (b_rows, b) = await self._embed(context, body, a_texts, b_texts)
        if not (a_rows and b_rows):
            convert = partial(_vector_inputs, body, a if a_rows else None, b if b_rows else None)
            a, b = await run_in_thread(convert, context.body_bytes <= _SMALL_BODY)
        if a.shape[1] != b.shape[1]:
            raise BadRequest(
                f"a has {a.shape[1]} dimensions, but b has {b.shape[1]}; they must be equal",
                param="b",
            )
        scores = await self._scores(context, a, b, body)
        inputs: SideInputs = {}
        if a_rows:
            inputs["a"] = describe_inputs(a_rows)
        if b_rows:
            inputs["b"] = describe_inputs(b_rows)
        return _response(body.metric, scores, self._details(context, body, inputs))

    async def _source_similarity(
        self, context: RequestContext, body: SimilarityRequest, inputs: Sentences
    ) -> SimilarityResponse:
        body.check_source()
        source_text = texts_by_path(inputs.source_sentence, "inputs", "source_sentence")
        sentences = texts_by_path(inputs.sentences, "inputs", "sentences")
        ((source,), a), (rows, b) = await self._embed(context, body, source_text, sentences)
        (scores,) = await self._scores(context, a, b, body)
        if not body.details:
            plain: list[float] = as_lists(scores)
            return plain
        described: SourceInputs = {
            "source_sentence": describe_input(source),
            "sentences": describe_inputs(rows),
        }
        return _response(body.metric, scores, self._details(context, body, described))

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
        with located(paths):
            if self._is_sparse:
                rows, sparse = await compute_sparse_vectors(
                    *(self.model.pipeline, context, texts, options),
                    num_queries=count,
                    max_values=max_values,
                )
                vectors = as_matrix(context, sparse, max_values)
            else:
                rows, vectors = await self.model.pipeline.embed(context, texts, options)
        normalize = self.model.description.sentence.normalize
        vectors = truncate_and_normalize(vectors, None, normalize)
        return (rows[:count], vectors[:count]), (rows[count:], vectors[count:])

    def _details(
        self, context: RequestContext, body: SimilarityRequest, inputs: SideInputs | SourceInputs
    ) -> Details:
        if not body.details:
            return {}
        prompt = self.model.reader.resolve_prompt(body.input_options())
        return {"inputs": inputs, **describe_request(context, prompt)}


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /similarity."""
    models = registry.choice(SimilarityService, DENSE, MULTI)
    routes = api_router("compare")

    @routes.post("/similarity", summary="Compare texts or vectors")
    async def similarity(context: RequestDep, body: SimilarityRequest) -> SimilarityResponse:
        return await models.choose(body.model, body.requested_task).similarity(context, body)

    return routes


def _vector_inputs(
    body: SimilarityRequest, a: Floats | None, b: Floats | None
) -> tuple[Floats, Floats]:
    """Return the vectors of both inputs.

    a, b: the vectors of the texts among the inputs.
    """
    return (
        vector_array(body.a, "a") if a is None else a,
        vector_array(body.b, "b") if b is None else b,
    )


async def maxsim_similarity(
    multi_vectors: MultiVectors, context: RequestContext, body: SimilarityRequest, max_values: int
) -> SimilarityResponse:
    """Score queries (`a`, or the source sentence) against documents (`b`, or the sentences).

    Raises BadRequest for vectors, for another metric, and for a model without token vectors.

    max_values: maximum count of numbers in the scores.
    """
    multi_vectors.check_offered()
    if "metric" in body.model_fields_set and body.metric != MAXSIM:
        raise BadRequest(f"metric must be {MAXSIM} for this model", param="metric")
    queries, documents, paths = _maxsim_texts(body)
    _check_scores(len(queries), len(documents), body, max_values)
    context.memory.grow_by_numbers(len(queries) * len(documents))
    with located(paths):
        a, b = await multi_vectors.query_document_vectors(
            context, queries, documents, body.input_options()
        )
    scores = await _maxsim_scores(multi_vectors, a, b, body.mode)
    if body.inputs is not None and not body.details:
        plain: list[float] = as_lists(scores[0])
        return plain
    details = _maxsim_details(context, body, a, b) if body.details else Details()
    if body.inputs is not None:
        return _response(MAXSIM, scores[0], details)
    best = None if body.top_k is None else [_top(row, ranking(row, body.top_k)) for row in scores]
    return _response(MAXSIM, scores if best is None else best, details)


def _maxsim_texts(body: SimilarityRequest) -> tuple[list[str], list[str], list[Any]]:
    if body.inputs is not None:
        body.check_source()
        sentences = body.inputs.sentences
        paths = [("inputs", "sentences", index) for index in range(len(sentences))]
        return [body.inputs.source_sentence], sentences, [("inputs", "source_sentence"), *paths]
    body.check_a_and_b()
    a, b = texts_by_path(body.a, "a"), texts_by_path(body.b, "b")
    for name, texts in (("a", a), ("b", b)):
        if not texts:
            raise BadRequest(f"{name} must be texts: {MAXSIM} compares their tokens", param=name)
    return _only_texts(a), _only_texts(b), [*a, *b]


def _only_texts(items: TextsByPath) -> list[str]:
    texts = [item for item in items.values() if isinstance(item, str)]
    if len(texts) < len(items):
        raise BadRequest("this model embeds texts only; send no images", code="not_offered")
    return texts


def _check_scores(a: int, b: int, body: SimilarityRequest, max_values: int) -> None:
    if body.mode == "pairwise":
        if a != b:
            raise BadRequest(
                f"a has {a} entries and b has {b}; mode pairwise needs equal numbers", param="mode"
            )
        if body.top_k is not None:
            raise BadRequest("top_k needs mode matrix", param="top_k")
    check_response_numbers(a if body.mode == "pairwise" else a * b, max_values)


async def _maxsim_scores(
    multi_vectors: MultiVectors, a: TokenVectors, b: TokenVectors, mode: str
) -> Floats:
    if mode == "pairwise":
        return await multi_vectors.maxsim_scores([*zip(a.vectors, b.vectors, strict=True)])
    pairs = [(query, document) for query in a.vectors for document in b.vectors]
    return (await multi_vectors.maxsim_scores(pairs)).reshape(len(a.vectors), len(b.vectors))


def _top(row: Floats, indices: Sequence[int]) -> list[Best]:
    return [{"index": index, "score": float(row[index])} for index in indices]


def _maxsim_details(
    context: RequestContext, body: SimilarityRequest, a: TokenVectors, b: TokenVectors
) -> Details:
    first, second = describe_inputs(a.rows), describe_inputs(b.rows)
    inputs: SideInputs | SourceInputs = {"a": first, "b": second}
    if body.inputs is not None:
        inputs = {"source_sentence": first[0], "sentences": second}
    return {
        "inputs": inputs,
        "usage": describe_usage(context),
        "timing": describe_timing(context),
    }


def _response(
    metric: str, scores: Floats | Sequence[Any], details: Details
) -> SimilarityScores | Top:
    """Build the response. scores: an array of scores, or for each a the closest entries of b."""
    if isinstance(scores, np.ndarray):
        return {"metric": metric, "scores": as_lists(scores), **details}
    return {"metric": metric, "top": [*scores], **details}
