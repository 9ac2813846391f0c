"""POST /similarity: how close texts or vectors are, one against many or two lists."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import PositiveInt

from models.vectors import Floats, finish
from service.api.body import FIRST, Body, HostedBody, ReadingBody, example
from service.api.comparison_input import Side, Texts, texts, vectors
from service.api.openapi_responses import documented
from service.api.router import Context, api_router
from service.api.schemas.similarity import SimilarityAnswer
from service.api.similarity_scores import compare
from service.errors import BadRequest, ServiceError
from service.inference.pipeline import Pipeline
from service.inputs.options import InputOptions
from service.inputs.tokenized_input import TokenizedInput
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread


class Sentences(Body):
    """TEI's inputs: one sentence against many."""

    source_sentence: str
    sentences: Annotated[list[str], FIRST]


class SimilarityRequest(HostedBody):
    """Either inputs (TEI's shape), or a and b: a text, texts, or vectors.

    parameters: how texts are read, as TEI has it; or the same fields beside it.
    mode: matrix, every a with every b; pairwise, the first a with the first b and so on.
    top_k: for each a, the closest b, best first and equals in their order: two numbers each.
    details: what became of each text.
    """

    model_config = example(
        {"inputs": {"source_sentence": "A cat sleeps.", "sentences": ["A kitten naps."]}},
        {"a": [[1.0, 0.0]], "b": [[0.6, 0.8], [0.0, 1.0]], "top_k": 1, "metric": "euclidean"},
        {"a": "A cat sleeps.", "b": ["A kitten naps."], "mode": "pairwise", "details": True},
        a=["A cat sleeps."],
        b=["A kitten naps.", "The car is red."],
    )

    inputs: Sentences | None = None
    parameters: ReadingBody | None = None
    a: Side | None = None
    b: Side | None = None
    metric: Literal["cosine", "dot", "euclidean", "manhattan"] = "cosine"
    mode: Literal["matrix", "pairwise"] = "matrix"
    top_k: PositiveInt | None = None
    details: bool = False

    def reading(self, count: bool = False) -> InputOptions:
        """As parameters say, or the fields beside them; raises BadRequest for both."""
        if self.parameters is None:
            return super().reading(count)
        if twice := sorted(self.model_fields_set & _READING):
            raise BadRequest(
                f"give {twice[0]} in parameters or beside it, not both", param=twice[0]
            )
        return self.parameters.reading(count)


_SMALL = 1 << 16  # bytes of a body, whose vectors are arrays in a millisecond
_READING = frozenset(ReadingBody.model_fields)
_NONE: Floats = np.empty((0, 0), dtype=np.float32)

Read = tuple[list[TokenizedInput], Floats]
"""What was read of texts, and their vectors: (B, D)."""


@dataclass(frozen=True)
class _Similarity:
    pipeline: Pipeline
    max_values: int

    async def similarity(self, context: RequestContext, body: SimilarityRequest) -> Any:
        if body.inputs is not None:
            return await self._source(context, body, body.inputs)
        _check_sides(body)
        first, second = texts(body.a, "a"), texts(body.b, "b")
        (left, a), (right, b) = await self._embed(context, body, first, second)
        if not (left and right):
            read = partial(_sides, body, a if left else None, b if right else None)
            a, b = await run_in_thread(read, context.size <= _SMALL)
        if a.shape[1] != b.shape[1]:
            raise BadRequest(f"a has {a.shape[1]} dimensions, b has {b.shape[1]}", param="b")
        found = {"metric": body.metric, **await self._compare(context, a, b, body)}
        sides = {"a": left, "b": right}
        told = {name: [row.as_json() for row in rows] for name, rows in sides.items() if rows}
        return {**found, "inputs": told, **self._about(context, body)} if body.details else found

    async def _source(
        self, context: RequestContext, body: SimilarityRequest, inputs: Sentences
    ) -> Any:
        _check_source(body, inputs)
        first = texts(inputs.source_sentence, "inputs", "source_sentence")
        second = texts(inputs.sentences, "inputs", "sentences")
        ((source,), a), (others, b) = await self._embed(context, body, first, second)
        (scores,) = (await self._compare(context, a, b, body))["scores"]
        if not body.details:
            return scores
        told = {"source_sentence": source.as_json(), "sentences": [row.as_json() for row in others]}
        found = {"metric": body.metric, "scores": scores, "inputs": told}
        return {**found, **self._about(context, body)}

    async def _compare(
        self, context: RequestContext, a: Floats, b: Floats, body: SimilarityRequest
    ) -> dict[str, Any]:
        values = len(a) * (1 if body.mode == "pairwise" else len(b))
        if values <= self.max_values:  # else it is refused for that
            context.memory.grow_by_numbers(values)
        return await compare(a, b, body, self.max_values)

    async def _embed(
        self, context: RequestContext, body: SimilarityRequest, first: Texts, second: Texts
    ) -> tuple[Read, Read]:
        """Vectors as sentence-transformers compares them: of unit length if the model says so."""
        reading, places = body.reading(count=body.details), [*first, *second]
        if not places:
            return ([], _NONE), ([], _NONE)
        given, half = [*first.values(), *second.values()], len(first)
        try:
            rows, found = await self.pipeline.embed(context, given, reading)
        except ServiceError as error:
            if error.index is not None:
                error.locate(places[error.index])
            raise
        found = finish(found, None, self.pipeline.reader.sentence.normalize)
        return (rows[:half], found[:half]), (rows[half:], found[half:])

    def _about(self, context: RequestContext, body: SimilarityRequest) -> dict[str, Any]:
        return {
            "prompt": self.pipeline.reader.prompt(body.reading()).as_json(),
            **context.usage_and_timing(),
        }


def router(pipeline: Pipeline, max_values: int) -> APIRouter:
    """The routes of this module. max_values: the most numbers of a response."""
    routes, comparison = api_router("similarity"), _Similarity(pipeline, max_values)

    @routes.post(
        "/similarity",
        summary="Similarity",
        response_model=SimilarityAnswer,
        responses=documented(),
    )
    async def similarity(context: Context, body: SimilarityRequest) -> Any:
        return await comparison.similarity(context, body)

    return routes


def _check_source(body: SimilarityRequest, inputs: Sentences) -> None:
    given = body.model_fields_set
    for name in ("a", "b", "mode", "top_k"):
        if name in given:
            raise BadRequest(f"{name} does not go with inputs", param=name)
    if not inputs.sentences:
        raise BadRequest("give at least one sentence", code="no_input", param="sentences")


def _sides(body: SimilarityRequest, a: Floats | None, b: Floats | None) -> tuple[Floats, Floats]:
    """Both sides as vectors, of which those of texts are there already."""
    return vectors(body.a, "a") if a is None else a, vectors(body.b, "b") if b is None else b


def _check_sides(body: SimilarityRequest) -> None:
    if body.a is None or body.b is None:
        raise BadRequest("give inputs, or both a and b", param="a" if body.a is None else "b")
    if [] in (body.a, body.b):
        raise BadRequest("a and b need at least one entry each", code="no_input")
