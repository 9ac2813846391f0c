"""How arrays leave: numbers in JSON, base64, or their bytes alone, as the client accepts."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, Literal

import numpy as np

from models.vectors import Floats, quantize
from service.errors import BadRequest, NotFinite
from service.request.request_context import RequestContext

Encoding = Literal["float", "base64"]
OutputType = Literal["float32", "float16", "int8", "uint8", "binary", "ubinary"]
Array = np.ndarray[Any, Any]

JSON, BYTES, NPY = b"application/json", b"application/octet-stream", b"application/x-npy"


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is not JSON."""

    media: bytes
    payload: bytes
    headers: Sequence[tuple[bytes, bytes]]

    def head(self) -> list[tuple[bytes, bytes]]:
        """Every header of the answer."""
        length = b"%d" % len(self.payload)
        return [(b"content-type", self.media), (b"content-length", length), *self.headers]


def convert(vectors: Floats, dtype: OutputType, index: int | None = None) -> Array:
    """Vectors as another type: (B, D); raises NotFinite for what float16 cannot hold.

    index: the input that all of them are of; else each is of its own.
    """
    values = quantize(vectors, dtype)
    if dtype == "float16":
        for row in overflown(values):
            raise beyond(int(row) if index is None else index)
    return values


def overflown(values: Array) -> Array:
    """The rows with numbers that are not finite."""
    return np.flatnonzero(~np.isfinite(values).all(axis=1))


def beyond(index: int) -> NotFinite:
    """What is told of a row that overflows."""
    return NotFinite(
        f"a vector of input {index} has numbers beyond float16's 65504; take float32, or normalize",
        param="output_dtype",
        index=index,
    )


def express(values: Array, encoding: str) -> Any:
    """An array for JSON: nested numbers, or a base64 string of each row's little-endian bytes."""
    if encoding == "float":
        return values
    return [base64.b64encode(row).decode() for row in values]


def block(values: Array, encoding: str) -> Any:
    """The same of the whole array: nested numbers, or one base64 string."""
    return values if encoding == "float" else base64.b64encode(values.tobytes()).decode()


def raw(context: RequestContext, array: Array, **headers: str) -> Raw | None:
    """The array's bytes if the client accepts those rather than JSON, else None.

    headers: more of them, with _ for -; the shape and the type of the numbers are always told.
    """
    media = preferred(context.accept)
    if media == JSON:
        return None
    told = {"x-shape": ",".join(map(str, array.shape)), "x-dtype": array.dtype.name, **headers}
    payload = array.tobytes() if media == BYTES else _npy(array)
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
    return Raw(media, payload, pairs)


def only_json(context: RequestContext, **fields: object) -> None:
    """Raises BadRequest for fields that only JSON has when the client accepts something else."""
    wrong = next((name for name, given in fields.items() if given), None)
    if wrong is not None and preferred(context.accept) != JSON:
        raise BadRequest(
            f"{wrong} goes with JSON only; accept application/json or leave it out", param=wrong
        )


@lru_cache(maxsize=64)
def preferred(accept: bytes) -> bytes:
    """The media type that an Accept header likes best of those there are; JSON if none.

    https://www.rfc-editor.org/rfc/rfc9110#field.accept
    """
    likes = dict(map(_range, accept.split(b",")))
    best = max((BYTES, NPY), key=lambda media: likes.get(media, 0.0))
    wild = max(likes.get(b"application/*", 0.0), likes.get(b"*/*", 0.0))
    # What is named outright goes before what a wildcard lets pass.
    chosen = likes.get(best, 0.0) > likes.get(JSON, 0.0) and likes[best] >= wild
    return best if chosen else JSON


def _range(part: bytes) -> tuple[bytes, float]:
    media, _, rest = part.partition(b";")
    _, _, quality = rest.replace(b" ", b"").lower().partition(b"q=")
    try:
        return media.strip().lower(), float(quality or 1)
    except ValueError:
        return media.strip().lower(), 0.0


def _npy(array: Array) -> bytes:
    buffer = BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()
