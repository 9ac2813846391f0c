"""POST /similarity: how close texts or vectors are, one against many or two lists."""

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, FiniteFloat, PositiveInt, Tag

from models.vectors import METRICS, Floats, finish
from service.api.body import Body, ReadingBody, example
from service.api.operation import Operation
from service.call import Call
from service.errors import BadRequest
from service.limits import check_values
from service.pipeline import Pipeline
from service.reader import Reading


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
    | Annotated[list[list[FiniteFloat]], Tag("<vectors>")],
    Discriminator(_kind),
]


class SimilarityRequest(ReadingBody):
    """Either inputs (TEI's shape), or a and b: a text, texts, or vectors.

    mode: matrix, every a with every b; pairwise, the first a with the first b and so on.
    top_k: for each a, the closest b, best first.
    """

    model_config = example(a=["A cat sleeps."], b=["A kitten naps.", "The car is red."])

    inputs: Sentences | None = None
    parameters: ReadingBody | None = None
    a: Side | None = None
    b: Side | None = None
    metric: Literal["cosine", "dot", "euclidean", "manhattan"] = "cosine"
    mode: Literal["matrix", "pairwise"] = "matrix"
    top_k: PositiveInt | None = None


def operation(pipeline: Pipeline, max_values: int) -> Operation[SimilarityRequest]:
    """The operation of this module."""

    async def similarity(call: Call, body: SimilarityRequest) -> Any:
        if body.inputs is not None:
            return await _source(pipeline, call, body, body.inputs)
        a, b = await _vectors(pipeline, call, body)
        return {"metric": body.metric, **_compare(a, b, body, max_values)}

    return Operation("/similarity", SimilarityRequest, similarity, "Similarity", "similarity")


async def _source(
    pipeline: Pipeline, call: Call, body: SimilarityRequest, inputs: Sentences
) -> Floats:
    if body.a is not None or body.b is not None:
        raise BadRequest("give inputs, or a and b, not both", param="inputs")
    if not inputs.sentences:
        raise BadRequest("give at least one sentence", code="no_input", param="sentences")
    reading = (body.parameters or body).reading()
    texts = [inputs.source_sentence, *inputs.sentences]
    vectors = await _embed(pipeline, call, texts, reading)
    scores: Floats = METRICS[body.metric](vectors[:1], vectors[1:])[0]
    return scores


async def _vectors(
    pipeline: Pipeline, call: Call, body: SimilarityRequest
) -> tuple[Floats, Floats]:
    if body.a is None or body.b is None:
        raise BadRequest("give inputs, or both a and b", param="a" if body.a is None else "b")
    if [] in (body.a, body.b):
        raise BadRequest("a and b need at least one entry each", code="no_input")
    texts = [*_texts(body.a), *_texts(body.b)]
    found = await _embed(pipeline, call, texts, body.reading()) if texts else None
    border = len(_texts(body.a))
    a = _array("a", body.a) if found is None or not border else found[:border]
    b = _array("b", body.b) if found is None or border == len(texts) else found[border:]
    if a.shape[1] != b.shape[1]:
        raise BadRequest(f"a has {a.shape[1]} dimensions, b has {b.shape[1]}", param="b")
    return a, b


async def _embed(pipeline: Pipeline, call: Call, texts: list[str], reading: Reading) -> Floats:
    """Vectors as sentence-transformers compares them: of unit length where the model says so."""
    _, vectors = await pipeline.embed(call, texts, reading)
    return finish(vectors, None, pipeline.reader.sentence.normalize)


def _texts(side: Any) -> list[str]:
    return [side] if isinstance(side, str) else [] if _kind(side) == "<vectors>" else side


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
    check_values(len(a) * len(b), most)
    scores = metric(a, b)
    return {"scores": scores} if body.top_k is None else {"top": _best(scores, body.top_k)}


def _best(scores: Floats, k: int) -> list[list[dict[str, Any]]]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [
        [{"index": int(i), "score": row[i].item()} for i in best]
        for row, best in zip(scores, order, strict=True)
    ]
