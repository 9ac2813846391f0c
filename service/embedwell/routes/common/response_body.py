"""Response bodies: vectors in JSON as numbers or base64, or the bytes of an array."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal, cast

import numpy as np
import orjson
from fastapi import Response
from pybase64 import b64encode_as_string

from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, NotFinite
from embedwell.http.request_context import RequestContext
from embedwell_models.vectors import Floats, quantize

EncodingFormat = Literal["float", "base64"]
OutputType = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]
BinaryType = Literal["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"]
Array = np.ndarray[Any, Any]
Vector = list[float] | str
"""A vector as numbers, or as their bytes in base64."""
Matrix = list[list[float]]
Vectors = Matrix | list[str]

JSON, BYTES, NPY = b"application/json", b"application/octet-stream", b"application/x-npy"
"""Media types of responses."""
LARGE_REQUEST = 1 << 20
"""A response that needs more bytes of memory than this is serialised in a thread."""
# Maximum sizes for one orjson call, which holds the GIL.
_CHUNK_NUMBERS, _CHUNK_ITEMS = 1 << 15, 64


def convert_vectors(vectors: Floats, dtype: OutputType, index: int | None = None) -> Array:
    """Convert vectors (B, D) to another number type; raises NotFinite if float16 overflows.

    index: the input to which all rows belong. By default row i belongs to input i.
    """
    values = quantize(vectors, dtype)
    if dtype == "float16":
        for row in rows_not_finite(values):
            raise float16_overflow(int(row) if index is None else index)
    return values


def binary_values(vectors: Floats, dtype: BinaryType, *, big_endian: bool) -> Array:
    """Convert vectors to numbers whose bytes are sent; bfloat16 and fp8 become unsigned integers.

    Raises NotFinite if float16 or fp8 overflows.
    """
    match dtype:
        case "bfloat16":
            # The upper halves, rounded to the nearest and ties to even.
            bits = np.ascontiguousarray(vectors, dtype="<f4").view("<u4")
            rounded: Array = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
            values = rounded.astype("<u2")
        case "fp8_e4m3" | "fp8_e5m2":
            values = _to_float8(vectors, dtype)
        case _:
            values = convert_vectors(vectors, dtype)
    return values.byteswap() if big_endian else values


def _to_float8(vectors: Floats, dtype: Literal["fp8_e4m3", "fp8_e5m2"]) -> Array:
    from embedwell.routes.common.float8 import float8_values, to_float8  # for vLLM's clients

    greatest = float8_values(dtype)[-1]
    for row in np.flatnonzero((np.abs(vectors) > greatest).any(axis=-1)):
        raise NotFinite(
            f"a vector of input {row} has a number above {greatest:g}, the limit of {dtype}; "
            "request float32, or set normalize",
            param="embed_dtype",
            index=int(row),
        )
    return to_float8(vectors, dtype)


def rows_not_finite(values: Array) -> Array:
    """Return the indices of rows that have a NaN or an infinity: (B, D) -> (at most B,)."""
    return np.flatnonzero(~np.isfinite(values).all(axis=1))


def float16_overflow(index: int) -> NotFinite:
    """Create the error for an input whose vector float16 cannot represent."""
    return NotFinite(
        f"a vector of input {index} has a number above 65504, the limit of float16; request "
        "float32, or set normalize",
        param="output_dtype",
        index=index,
    )


def as_lists(values: Array) -> Any:
    """Return an array itself where a response type has nested lists: JSON is the same for both."""
    return values


def encode_rows(values: Array, encoding_format: EncodingFormat) -> Vectors:
    """Encode an array for JSON: nested numbers, or each row's little-endian bytes in base64."""
    if encoding_format == "float":
        return cast("Matrix", values)
    return [*map(b64encode_as_string, values)]


def encode_block(values: Array, encoding_format: EncodingFormat) -> Matrix | str:
    """Encode an array for JSON: nested numbers, or all of its bytes as one base64 string."""
    if encoding_format == "float":
        return cast("Matrix", values)
    return b64encode_as_string(values.tobytes())


def encode_blocks(
    arrays: Iterable[Array], encoding_format: EncodingFormat
) -> list[Matrix] | list[str]:
    """Encode each array as `encode_block` does."""
    blocks = [encode_block(values, encoding_format) for values in arrays]
    return cast("list[Matrix] | list[str]", blocks)


def dump(content: Any) -> bytes:
    """Serialise content as JSON in one call."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


async def dump_response(context: RequestContext, content: Any) -> bytes:
    """Serialise a response as JSON, in a thread and in chunks if the request is large."""
    if context.memory.size <= LARGE_REQUEST:
        return dump(content)
    return await run_in_thread(lambda: dump(_dump_parts(content)), small=False)


def _dump_parts(content: Any) -> Any:
    """Replace the large parts of content with their JSON."""
    if isinstance(content, dict):
        return {name: _dump_parts(value) for name, value in content.items()}
    if isinstance(content, np.ndarray) and content.ndim > 2:
        return list(map(_dump_parts, content))
    if isinstance(content, np.ndarray) and content.ndim > 1:
        return _dump_chunks(content, max(1, _CHUNK_NUMBERS // max(1, content[:1].size)))
    if isinstance(content, list):
        items = list(map(_dump_parts, content)) if _has_nested_items(content) else content
        return _dump_chunks(items, _CHUNK_ITEMS)
    return content


def _has_nested_items(items: Sequence[Any]) -> bool:
    """Return whether items may have large parts, judging by the first: all items are alike."""
    first = next(iter(items), None)
    parts = first.values() if isinstance(first, dict) else [first]
    return any(isinstance(part, (list, dict)) or getattr(part, "ndim", 1) > 1 for part in parts)


def _dump_chunks(items: Any, size: int) -> orjson.Fragment:
    chunks = (dump(items[start : start + size])[1:-1] for start in range(0, len(items), size))
    return orjson.Fragment(b"[" + b",".join(chunks) + b"]")


@dataclass(frozen=True, slots=True)
class BinaryResponse:
    """A response body of bytes, with its headers other than content-type and content-length."""

    media_type: bytes
    body: bytes
    extra_headers: Sequence[tuple[bytes, bytes]]

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return all headers of the response."""
        length = b"%d" % len(self.body)
        return [
            (b"content-type", self.media_type),
            (b"content-length", length),
            *self.extra_headers,
        ]


def binary_response(context: RequestContext, array: Array) -> BinaryResponse | None:
    """Build a response with the array's bytes, shape and dtype; None if the client gets JSON."""
    media_type = preferred_media_type(context.accept)
    if media_type == JSON:
        return None
    body = array.tobytes() if media_type == BYTES else _npy_file(array)
    shape = ",".join(map(str, array.shape))
    headers = [(b"x-shape", shape.encode()), (b"x-dtype", array.dtype.name.encode())]
    return BinaryResponse(media_type, body, headers)


def check_json_fields(context: RequestContext, **fields: object) -> None:
    """Raise BadRequest if a field needs a JSON response, but the client prefers bytes."""
    if preferred_media_type(context.accept) == JSON:
        return
    for field, value in fields.items():
        if value:
            raise BadRequest(
                f"{field} needs a JSON response; accept application/json, or leave {field} out",
                param=field,
            )


@lru_cache(maxsize=64)
def preferred_media_type(accept: bytes) -> bytes:
    """Choose the media type that an Accept header prefers; JSON by default.

    https://www.rfc-editor.org/rfc/rfc9110#field.accept
    """
    qualities = dict(map(_media_range, accept.split(b",")))
    binary = max((BYTES, NPY), key=lambda media_type: qualities.get(media_type, 0.0))
    wildcard = max(qualities.get(b"application/*", 0.0), qualities.get(b"*/*", 0.0))
    quality = qualities.get(binary, 0.0)
    # A media type that is named explicitly has precedence over one that only a wildcard matches.
    chosen = quality > qualities.get(JSON, 0.0) and quality >= wildcard
    return binary if chosen else JSON


def _media_range(part: bytes) -> tuple[bytes, float]:
    media_type, _, parameters = part.partition(b";")
    _, _, quality = parameters.replace(b" ", b"").lower().partition(b"q=")
    try:
        return media_type.strip().lower(), float(quality or 1)
    except ValueError:
        return media_type.strip().lower(), 0.0


def _npy_file(array: Array) -> bytes:
    buffer = BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


async def fastapi_response(context: RequestContext, content: Any) -> Response:
    """Build FastAPI's response from an endpoint's result: JSON, or bytes for a BinaryResponse."""
    if isinstance(content, BinaryResponse):
        headers = {name.decode(): value.decode() for name, value in content.headers()}
        return Response(content.body, headers=headers)
    return Response(await dump_response(context, content), media_type="application/json")
