"""POST /similarity: scores of one text against many, or of two lists of texts or vectors."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import PositiveInt

from models.vectors import Floats, finish
from service.api.body import FAIL_FAST, Body, examples
from service.api.comparison_input import (
    ComparisonInput,
    TextsByPath,
    texts_by_path,
    vector_array,
)
from service.api.openapi_responses import route_responses
from service.api.options_body import OPTION_FIELDS, HuggingFaceBody, ReadingBody
from service.api.router import Context, api_router
from service.api.schemas.similarity import SimilarityResponse
from service.api.similarity_scores import similarity_scores
from service.errors import BadRequest, ServiceError
from service.inference.pipeline import Pipeline
from service.inputs.options import InputOptions
from service.inputs.tokenized_input import TokenizedInput
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread


class Sentences(Body):
    """TEI's inputs: one sentence against many."""

    source_sentence: str
    sentences: Annotated[list[str], FAIL_FAST]


class SimilarityRequest(HuggingFaceBody):
    """Either inputs (TEI's format), or a and b: a text, texts, or vectors.

    parameters: TEI's place for the fields about prompts and long texts, which may also stand
    beside it. mode: matrix scores every a with every b; pairwise the first a with the first b, and
    so on. top_k: for each a, the closest b, best first, equal scores in the order of b; each is
    two numbers. details: describe each text, too.
    """

    model_config = examples(
        {"inputs": {"source_sentence": "A cat sleeps.", "sentences": ["A kitten naps."]}},
        {"a": [[1.0, 0.0]], "b": [[0.6, 0.8], [0.0, 1.0]], "top_k": 1, "metric": "euclidean"},
        {"a": "A cat sleeps.", "b": ["A kitten naps."], "mode": "pairwise", "details": True},
        a=["A cat sleeps."],
        b=["A kitten naps.", "The car is red."],
    )

    inputs: Sentences | None = None
    parameters: ReadingBody | None = None
    a: ComparisonInput | None = None
    b: ComparisonInput | None = None
    metric: Literal["cosine", "dot", "euclidean", "manhattan"] = "cosine"
    mode: Literal["matrix", "pairwise"] = "matrix"
    top_k: PositiveInt | None = None
    details: bool = False

    def input_options(self, count: bool = False) -> InputOptions:
        """Build the options from `parameters` or the fields beside it; raises BadRequest."""
        if self.parameters is None:
            return super().input_options(count)
        if repeated := sorted(self.model_fields_set & OPTION_FIELDS):
            raise BadRequest(
                f"give {repeated[0]} in parameters or beside it, not both", param=repeated[0]
            )
        return self.parameters.input_options(count)


_SMALL_BODY = 1 << 16  # bytes; its vectors are converted in a millisecond
_NO_VECTORS: Floats = np.empty((0, 0), dtype=np.float32)

EmbeddedTexts = tuple[list[TokenizedInput], Floats]
"""Tokenized texts and their vectors (B, D)."""


@dataclass(frozen=True)
class _SimilarityService:
    pipeline: Pipeline
    max_values: int

    async def similarity(self, context: RequestContext, body: SimilarityRequest) -> Any:
        if body.inputs is not None:
            return await self._source_similarity(context, body, body.inputs)
        _check_a_and_b(body)
        a_texts, b_texts = texts_by_path(body.a, "a"), texts_by_path(body.b, "b")
        (a_rows, a), (b_rows, b) = await self._embed(context, body, a_texts, b_texts)
        if not (a_rows and b_rows):
            convert = partial(_vector_inputs, body, a if a_rows else None, b if b_rows else None)
            a, b = await run_in_thread(convert, context.size <= _SMALL_BODY)
        if a.shape[1] != b.shape[1]:
            raise BadRequest(f"a has {a.shape[1]} dimensions, b has {b.shape[1]}", param="b")
        response = {"metric": body.metric, **await self._scores(context, a, b, body)}
        if not body.details:
            return response
        rows = {"a": a_rows, "b": b_rows}
        inputs = {name: [row.as_json() for row in rows[name]] for name in rows if rows[name]}
        return {**response, "inputs": inputs, **self._details(context, body)}

    async def _source_similarity(
        self, context: RequestContext, body: SimilarityRequest, inputs: Sentences
    ) -> Any:
        _check_source(body, inputs)
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

    async def _scores(
        self, context: RequestContext, a: Floats, b: Floats, body: SimilarityRequest
    ) -> dict[str, Any]:
        values = len(a) * (1 if body.mode == "pairwise" else len(b))
        if values <= self.max_values:  # otherwise similarity_scores refuses the request
            context.memory.grow_by_numbers(values)
        return await similarity_scores(a, b, body, self.max_values)

    async def _embed(
        self,
        context: RequestContext,
        body: SimilarityRequest,
        first: TextsByPath,
        second: TextsByPath,
    ) -> tuple[EmbeddedTexts, EmbeddedTexts]:
        """Embed the texts of both inputs; normalise the vectors if the model does."""
        options, paths = body.input_options(count=body.details), [*first, *second]
        if not paths:
            return ([], _NO_VECTORS), ([], _NO_VECTORS)
        texts, count = [*first.values(), *second.values()], len(first)
        try:
            rows, vectors = await self.pipeline.embed(context, texts, options)
        except ServiceError as error:
            if error.index is not None:
                error.locate(paths[error.index])
            raise
        vectors = finish(vectors, None, self.pipeline.reader.sentence.normalize)
        return (rows[:count], vectors[:count]), (rows[count:], vectors[count:])

    def _details(self, context: RequestContext, body: SimilarityRequest) -> dict[str, Any]:
        return {
            "prompt": self.pipeline.reader.prompt(body.input_options()).as_json(),
            **context.usage_and_timing(),
        }


def router(pipeline: Pipeline, max_values: int) -> APIRouter:
    """Create the routes of this module. max_values: most numbers of a response."""
    routes, service = api_router("similarity"), _SimilarityService(pipeline, max_values)

    @routes.post(
        "/similarity",
        summary="Similarity",
        response_model=SimilarityResponse,
        responses=route_responses(),
    )
    async def similarity(context: Context, body: SimilarityRequest) -> Any:
        return await service.similarity(context, body)

    return routes


def _check_source(body: SimilarityRequest, inputs: Sentences) -> None:
    for name in ("a", "b", "mode", "top_k"):
        if name in body.model_fields_set:
            raise BadRequest(f"{name} does not go with inputs", param=name)
    if not inputs.sentences:
        raise BadRequest("give at least one sentence", code="no_input", param="sentences")


def _check_a_and_b(body: SimilarityRequest) -> None:
    if body.a is None or body.b is None:
        raise BadRequest("give inputs, or both a and b", param="a" if body.a is None else "b")
    if [] in (body.a, body.b):
        raise BadRequest("a and b need at least one entry each", code="no_input")


def _vector_inputs(
    body: SimilarityRequest, a: Floats | None, b: Floats | None
) -> tuple[Floats, Floats]:
    """Return the vectors of both inputs; `a` and `b` are those of texts."""
    return (
        vector_array(body.a, "a") if a is None else a,
        vector_array(body.b, "b") if b is None else b,
    )
