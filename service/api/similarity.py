"""POST /similarity: how close texts or vectors are, one against many or two lists."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, FiniteFloat, PositiveInt, Tag

from models.vectors import Floats, finish
from service.api.answers import Answers
from service.api.body import FIRST, Body, ReadingBody, example
from service.api.operation import Operation
from service.api.scores import compare, scores
from service.api.shapes.similarity import SimilarityAnswer
from service.call import Call
from service.errors import BadRequest
from service.pipeline import Pipeline
from service.reader import Reading
from service.row import Row


class Sentences(Body):
    """TEI's inputs: one sentence against many."""

    source_sentence: str
    sentences: Annotated[list[str], FIRST]


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    vectors = isinstance(value, list) and value and isinstance(value[0], list)
    return "<vectors>" if vectors else "<side>"


Side = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[list[str], FIRST, Tag("<side>")]
    | Annotated[list[Annotated[list[FiniteFloat], FIRST]], FIRST, Tag("<vectors>")],
    Discriminator(_kind),
]


class SimilarityRequest(ReadingBody):
    """Either inputs (TEI's shape), or a and b: a text, texts, or vectors.

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


_NONE: Floats = np.empty((0, 0), dtype=np.float32)
_READING = frozenset(ReadingBody.model_fields)


@dataclass(frozen=True)
class _Similarity:
    pipeline: Pipeline
    max_values: int

    async def similarity(self, call: Call, body: SimilarityRequest) -> Any:
        if body.inputs is not None:
            return await self._source(call, body, body.inputs)
        rows, a, b = await self._sides(call, body)
        found = {"metric": body.metric, **await compare(a, b, body, self.max_values)}
        if not body.details:
            return found
        told = iter([row.told() for row in rows])
        inputs = {
            name: [next(told) for _ in _texts(side)]
            for name, side in (("a", body.a), ("b", body.b))
            if _texts(side)
        }
        return {**found, "inputs": inputs, **self._about(call, body.reading())}

    async def _source(self, call: Call, body: SimilarityRequest, inputs: Sentences) -> Any:
        _check_source(body, inputs)
        reading = (body.parameters or body).reading(count=body.details)
        texts = [inputs.source_sentence, *inputs.sentences]
        rows, vectors = await self._embed(call, texts, reading)
        found: Floats = scores(body.metric, vectors[:1], vectors[1:])[0]
        if not body.details:
            return found
        source, *others = (row.told() for row in rows)
        told = {"source_sentence": source, "sentences": others}
        return {
            "metric": body.metric,
            "scores": found,
            "inputs": told,
            **self._about(call, reading),
        }

    async def _sides(self, call: Call, body: SimilarityRequest) -> tuple[list[Row], Floats, Floats]:
        if body.a is None or body.b is None:
            raise BadRequest("give inputs, or both a and b", param="a" if body.a is None else "b")
        if [] in (body.a, body.b):
            raise BadRequest("a and b need at least one entry each", code="no_input")
        first, texts = _texts(body.a), [*_texts(body.a), *_texts(body.b)]
        reading = body.reading(count=body.details)
        rows, found = await self._embed(call, texts, reading) if texts else ([], _NONE)
        a = found[: len(first)] if first else _array("a", body.a)
        b = found[len(first) :] if _texts(body.b) else _array("b", body.b)
        if a.shape[1] != b.shape[1]:
            raise BadRequest(f"a has {a.shape[1]} dimensions, b has {b.shape[1]}", param="b")
        return rows, a, b

    async def _embed(
        self, call: Call, texts: list[str], reading: Reading
    ) -> tuple[list[Row], Floats]:
        """Vectors as sentence-transformers compares them: of unit length if the model says so."""
        rows, vectors = await self.pipeline.embed(call, texts, reading)
        return rows, finish(vectors, None, self.pipeline.reader.sentence.normalize)

    def _about(self, call: Call, reading: Reading) -> dict[str, Any]:
        return {"prompt": self.pipeline.reader.prompt(reading).told(), **call.account()}


def operation(pipeline: Pipeline, max_values: int) -> Operation[SimilarityRequest]:
    """The operation of this module."""
    work = _Similarity(pipeline, max_values).similarity
    answers = Answers(SimilarityAnswer)
    return Operation("/similarity", SimilarityRequest, work, "Similarity", "similarity", answers)


def _check_source(body: SimilarityRequest, inputs: Sentences) -> None:
    given = body.model_fields_set
    for name in ("a", "b", "mode", "top_k"):
        if name in given:
            raise BadRequest(f"{name} does not go with inputs", param=name)
    twice = sorted(given & _READING)
    if body.parameters is not None and twice:
        raise BadRequest(f"give {twice[0]} in parameters or beside it, not both", param=twice[0])
    if not inputs.sentences:
        raise BadRequest("give at least one sentence", code="no_input", param="sentences")


def _texts(side: Any) -> list[str]:
    return [side] if isinstance(side, str) else [] if _kind(side) == "<vectors>" else side


def _array(name: str, rows: Any) -> Floats:
    for index, row in enumerate(rows):
        if not row:
            raise BadRequest(f"{name}[{index}] is empty", param=name, index=index)
        if len(row) != len(rows[0]):
            raise BadRequest(
                f"{name}[{index}] has {len(row)} numbers, {name}[0] has {len(rows[0])}",
                param=name,
                index=index,
            )
    with np.errstate(over="ignore"):
        found = np.array(rows, dtype=np.float64).astype(np.float32)
    for place in np.flatnonzero(~np.isfinite(found).all(axis=1)):
        raise BadRequest(
            f"{name}[{place}] has numbers beyond float32", param=name, index=int(place)
        )
    return found
