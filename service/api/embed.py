"""POST /embed: sentence vectors, in TEI's request and answer shapes and with more on request."""

import base64
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt

from models.vectors import finish, quantize
from service.api.body import Inputs, ReadingBody, batch, example
from service.api.operation import Operation
from service.call import Call
from service.errors import BadRequest
from service.pipeline import Floats, Pipeline
from service.reader import Row

Encoding = Literal["float", "base64"]
OutputType = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]


class EmbedRequest(ReadingBody):
    """inputs: a text, its token ids, or a list of either."""

    model_config = example(inputs=["Hello, world", "A second text"], dimensions=8)

    inputs: Inputs
    normalize: bool = True
    dimensions: PositiveInt | None = None
    encoding_format: Encoding = "float"
    output_dtype: OutputType = "float32"
    details: bool = False


def operation(pipeline: Pipeline, model: str) -> Operation[EmbedRequest]:
    """The operation of this module."""

    async def embed(call: Call, body: EmbedRequest) -> Any:
        reading = replace(body.reading(), count=body.details)
        rows, vectors = await pipeline.embed(call, batch(body.inputs), reading)
        vectors = shorten(vectors, body.dimensions, body.normalize)
        values = express(quantize(vectors, body.output_dtype), body.encoding_format)
        return _details(values, vectors, rows, call, model) if body.details else values

    summary, tag = "Sentence embeddings", "embeddings"
    return Operation("/embed", EmbedRequest, embed, summary, tag, aliases=("/",))


def shorten(vectors: Floats, dimensions: int | None, normalized: bool) -> Floats:
    """The vectors cut and normalised; raises BadRequest for more dimensions than there are."""
    dim = vectors.shape[1]
    if dimensions is not None and dimensions > dim:
        raise BadRequest(
            f"dimensions is {dimensions}, the model has {dim}",
            code="too_many_dimensions",
            param="dimensions",
        )
    return finish(vectors, dimensions, normalized)


def express(values: np.ndarray[Any, Any], encoding: str) -> Any:
    """An array for JSON: nested numbers, or a base64 string of each row's little-endian bytes."""
    if encoding == "float":
        return values
    return [base64.b64encode(row).decode() for row in values]


def _details(
    values: Any, vectors: Floats, rows: list[Row], call: Call, model: str
) -> dict[str, Any]:
    return {
        "embeddings": values,
        "model": model,
        "dimensions": vectors.shape[1],
        "inputs": [
            {"tokens": len(row.ids), "truncated": row.dropped > 0, "dropped": row.dropped}
            for row in rows
        ],
        "usage": {"texts": call.texts, "tokens": call.tokens},
        "timing": {
            "tokenize_us": call.tokenize_us,
            "queue_us": call.queue_us,
            "compute_us": call.compute_us,
            "total_us": call.total_us,
        },
    }
