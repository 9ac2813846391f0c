"""POST /similarity: how close texts or vectors are, one against many or two lists."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Discriminator, PositiveInt, Tag

from models.vectors import METRICS
from service.api.body import Body, ReadingBody, accepts, answer, call_of, parse
from service.call import Call
from service.errors import BadRequest, TooLarge
from service.pipeline import Floats, Pipeline


class Sentences(Body):
    """TEI's inputs: one sentence against many."""

    source_sentence: str
    sentences: list[str]


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    return "<vectors>" if value and isinstance(value[0], list) else "<texts>"


Side = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], Tag("<texts>")]
    | Annotated[list[list[float]], Tag("<vectors>")],
    Discriminator(_kind),
]


class SimilarityRequest(ReadingBody):
    """Either inputs (TEI's shape), or a and b: a text, texts, or vectors.

    mode: matrix, every a with every b; pairwise, the first a with the first b and so on.
    top_k: for each a, the closest b, best first.
    """

    inputs: Sentences | None = None
    parameters: ReadingBody | None = None
    a: Side | None = None
    b: Side | None = None
    metric: Literal["cosine", "dot", "euclidean", "manhattan"] = "cosine"
    mode: Literal["matrix", "pairwise"] = "matrix"
    top_k: PositiveInt | None = None


def router(pipeline: Pipeline, max_values: int) -> APIRouter:
    """The routes of this module."""
    routes = APIRouter(tags=["similarity"])

    @routes.post("/similarity", summary="Similarity", openapi_extra=accepts(SimilarityRequest))
    async def similarity(request: Request) -> Response:
        body = await parse(request, SimilarityRequest)
        call = call_of(request)
        if body.inputs is not None:
            return answer(await _source(call, body, body.inputs))
        a, b = await _vectors(call, body)
        return answer({"metric": body.metric, **_compare(a, b, body, max_values)})

    async def _source(call: Call, body: SimilarityRequest, inputs: Sentences) -> Floats:
        if body.a is not None or body.b is not None:
            raise BadRequest("give inputs, or a and b, not both", param="inputs")
        reading = (body.parameters or body).reading()
        texts = [inputs.source_sentence, *inputs.sentences]
        _, vectors = await pipeline.embed(call, texts, reading)
        scores: Floats = METRICS[body.metric](vectors[:1], vectors[1:])[0]
        return scores

    async def _vectors(call: Call, body: SimilarityRequest) -> tuple[Floats, Floats]:
        if body.a is None or body.b is None:
            raise BadRequest("give inputs, or both a and b", param="a" if body.a is None else "b")
        sides = [_texts(body.a), _texts(body.b)]
        texts = [text for side in sides for text in side or []]
        found: Floats = np.empty((0, 0), dtype=np.float32)
        if texts:
            _, found = await pipeline.embed(call, texts, body.reading())
        a = _array("a", body.a) if sides[0] is None else found[: len(sides[0])]
        b = _array("b", body.b) if sides[1] is None else found[len(sides[0] or []) :]
        if a.shape[1] != b.shape[1]:
            raise BadRequest(f"a has {a.shape[1]} dimensions, b has {b.shape[1]}", param="b")
        return a, b

    return routes


def _texts(side: Any) -> list[str] | None:
    return [side] if isinstance(side, str) else None if _kind(side) == "<vectors>" else side


def _array(name: str, rows: Any) -> Floats:
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]) or not row:
            raise BadRequest(
                f"{name}[{index}] has {len(row)} numbers, {name}[0] has {len(rows[0])}",
                param=name,
                index=index,
            )
    return np.array(rows, dtype=np.float32)


def _compare(a: Floats, b: Floats, body: SimilarityRequest, most: int) -> dict[str, Any]:
    metric = METRICS[body.metric]
    if body.mode == "pairwise":
        if len(a) != len(b):
            raise BadRequest(f"a has {len(a)} entries, b has {len(b)}", param="mode")
        if body.top_k is not None:
            raise BadRequest("top_k goes with mode matrix", param="top_k")
        pairs = zip(a, b, strict=True)
        return {"scores": [metric(x[None], y[None])[0, 0].item() for x, y in pairs]}
    if len(a) * len(b) > most:
        raise TooLarge(f"{len(a)} x {len(b)} scores, the limit is {most}", code="too_many_values")
    scores = metric(a, b)
    return {"scores": scores} if body.top_k is None else {"top": _best(scores, body.top_k)}


def _best(scores: Floats, k: int) -> list[list[dict[str, Any]]]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [
        [{"index": int(i), "score": row[i].item()} for i in best]
        for row, best in zip(scores, order, strict=True)
    ]
