"""POST /similarity: score one text against many, or two lists of texts or vectors."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from embedwell.api.comparison_input import TextsByPath, texts_by_path, vector_array
from embedwell.api.maxsim import MAXSIM, maxsim_similarity
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.similarity import SimilarityResponse
from embedwell.api.similarity_request import Sentences, SimilarityRequest
from embedwell.api.similarity_scores import similarity_scores
from embedwell.errors import BadRequest, located
from embedwell.inference.multi_vectors import MultiVectors
from embedwell.inference.pipeline import Pipeline
from embedwell.inference.sparse_comparison import as_matrix, compute_sparse_vectors
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import run_in_thread
from embedwell_models.outputs.names import DENSE, SPARSE
from embedwell_models.vectors import Floats, finish

_SMALL_BODY = 1 << 16  # bytes; converting the vectors of a smaller body takes up to a millisecond
_NO_VECTORS: Floats = np.empty((0, 0), dtype=np.float32)

EmbeddedTexts = tuple[list[TokenizedInput], Floats]
"""Tokenized texts and their vectors (B, D)."""


@dataclass(frozen=True)
class SimilarityService:
    """Compares texts and vectors.

    max_values: maximum count of numbers in a response.
    """

    pipeline: Pipeline
    max_values: int
    multi_vectors: MultiVectors

    async def similarity(self, context: RequestContext, body: SimilarityRequest) -> Any:
        """Respond to /similarity."""
        if self.multi_vectors.alone or body.metric == MAXSIM:
            return await maxsim_similarity(self.multi_vectors, context, body, self.max_values)
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
        response = {"metric": body.metric, **await self._scores(context, a, b, body)}
        if not body.details:
            return response
        rows = {"a": a_rows, "b": b_rows}
        inputs = {name: [row.as_json() for row in rows[name]] for name in rows if rows[name]}
        return {**response, "inputs": inputs, **self._details(context, body)}

    async def _source_similarity(
        self, context: RequestContext, body: SimilarityRequest, inputs: Sentences
    ) -> Any:
        body.check_source()
        source_text = texts_by_path(inputs.source_sentence, "inputs", "source_sentence")
        sentences = texts_by_path(inputs.sentences, "inputs", "sentences")
        ((source,), a), (rows, b) = await self._embed(context, body, source_text, sentences)
        (scores,) = (await self._scores(context, a, b, body))["scores"]
        if not body.details:
            return scores
        return {
            "metric": body.metric,
            "scores": scores,
            "inputs": {
                "source_sentence": source.as_json(),
                "sentences": [row.as_json() for row in rows],
            },
            **self._details(context, body),
        }

    @property
    def _is_sparse(self) -> bool:
        names = self.pipeline.output_names
        return SPARSE in names and DENSE not in names

    async def _scores(
        self, context: RequestContext, a: Floats, b: Floats, body: SimilarityRequest
    ) -> dict[str, Any]:
        values = len(a) * (1 if body.mode == "pairwise" else len(b))
        if values <= self.max_values:  # otherwise similarity_scores rejects the request
            context.memory.grow_by_numbers(values)
        return await similarity_scores(a, b, body, self.max_values)

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
        with located(paths):
            if self._is_sparse:
                rows, sparse = await compute_sparse_vectors(
                    self.pipeline, context, texts, options, count
                )
                vectors = as_matrix(context, sparse, self.max_values)
            else:
                rows, vectors = await self.pipeline.embed(context, texts, options)
        vectors = finish(vectors, None, self.pipeline.reader.sentence.normalize)
        return (rows[:count], vectors[:count]), (rows[count:], vectors[count:])

    def _details(self, context: RequestContext, body: SimilarityRequest) -> dict[str, Any]:
        return {
            "prompt": self.pipeline.reader.resolve_prompt(body.input_options()).as_json(),
            **context.usage_and_timing(),
        }


def router(models: ModelChoice[SimilarityService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("similarity")

    @routes.post(
        "/similarity",
        summary="Similarity",
        response_model=SimilarityResponse,
        responses=route_responses(),
    )
    async def similarity(context: Context, body: SimilarityRequest) -> Any:
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
