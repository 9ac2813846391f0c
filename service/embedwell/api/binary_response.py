"""Binary responses: an array's bytes instead of JSON, if the Accept header requests them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO

import numpy as np

from embedwell.api.array_format import Array
from embedwell.errors import BadRequest
from embedwell.request.request_context import RequestContext

JSON, BYTES, NPY = b"application/json", b"application/octet-stream", b"application/x-npy"


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
    field = next((name for name, value in fields.items() if value), None)
    if field is not None and preferred_media_type(context.accept) != JSON:
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
