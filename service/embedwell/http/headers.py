"""Read and check the headers of a request."""

import random
import re
from collections.abc import Mapping, Sequence

from embedwell.errors import BadRequest, MalformedRequest, UnknownTransferEncoding, Unsupported

JSON = b"application/json"

_ID = re.compile(rb"[\w.:/+=@-]{1,128}", re.ASCII)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_TYPES = {JSON, b"application/x-www-form-urlencoded", b"text/plain", b""}

_LISTS = {b"accept", b"content-encoding", b"transfer-encoding"}

Headers = Mapping[bytes, bytes]


def merge_headers(lines: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Join the lines of list headers; other repeated headers keep their last value.

    https://www.rfc-editor.org/rfc/rfc9110#section-5.3
    """
    headers = dict(lines)
    if len(headers) < len(lines):
        for repeated in _LISTS & headers.keys():
            headers[repeated] = b", ".join(value for name, value in lines if name == repeated)
    return headers


def check_single_host(lines: Sequence[tuple[bytes, bytes]], headers: Headers, version: str) -> None:
    """Raise BadRequest unless there is exactly one Host header.

    With several, a gateway might read another one than this server.

    https://www.rfc-editor.org/rfc/rfc9112#section-3.2
    """
    if b"host" not in headers:
        if version == "1.1":
            raise BadRequest("an HTTP/1.1 request needs the header Host")
    elif len(headers) < len(lines) and [name for name, _ in lines].count(b"host") > 1:
        raise BadRequest("the request has several Host headers; send exactly one")


def check_transfer_encoding(codings: bytes, version: str) -> None:
    """Raise UnknownTransferEncoding for any transfer encoding but chunked.

    Raises MalformedRequest in HTTP/1.0, which has no transfer encodings. The parser itself rejects
    a list of encodings that does not end in chunked, because the end of such a body is unknown.
    https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    """
    if version == "1.0":
        raise MalformedRequest("HTTP/1.0 has no Transfer-Encoding; send Content-Length instead")
    first, _, last = codings.rpartition(b",")
    if first and last.strip().lower() == b"chunked":
        raise UnknownTransferEncoding(
            f"transfer-encoding {first.decode('latin-1')!r} is not supported; send chunked or "
            "Content-Length"
        )


def check_content_type(media: bytes) -> None:
    """Raise Unsupported for a body whose type is not JSON in UTF-8.

    The form type that curl declares by default is accepted, and the plain text of other clients.
    """
    if media == JSON:
        return
    kind, *rest = media.lower().replace(b" ", b"").split(b";")
    parameters = dict(parameter.partition(b"=")[::2] for parameter in rest)
    charset = parameters.get(b"charset", b"").strip(b'"') or b"utf-8"
    if (kind in _TYPES or kind.endswith(b"+json")) and charset in (b"utf-8", b"utf8", b"us-ascii"):
        return
    raise Unsupported(
        f"content-type {media.decode('latin-1')!r} is not supported; send application/json in "
        "UTF-8",
        code="unsupported_type",
        header="accept",
        supported="application/json",
    )


def request_id_of(headers: Headers) -> str:
    """Return the client's request id, else the trace id of its traceparent, else a new id.

    https://www.w3.org/TR/trace-context/#traceparent-header
    """
    request_id = headers.get(b"x-request-id")
    if request_id is not None and _ID.fullmatch(request_id):
        return request_id.decode()
    trace = b"traceparent" in headers and _TRACE.fullmatch(headers[b"traceparent"])
    return trace.group(1).decode() if trace else f"{random.getrandbits(128):032x}"
