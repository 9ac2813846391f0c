"""Headers of a request: what is read of them."""

import random
import re
from collections.abc import Mapping, Sequence

from service.errors import BadRequest, Malformed, UnknownCoding, Unsupported

JSON = b"application/json"

_ID = re.compile(rb"[\w.:/+=@-]{1,128}", re.ASCII)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_TYPES = {JSON, b"application/x-www-form-urlencoded", b"text/plain", b""}

_LISTS = {b"accept", b"content-encoding", b"transfer-encoding"}

Headers = Mapping[bytes, bytes]


def joined(lines: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Each name's lines as one if they are a list; of others the last counts.

    https://www.rfc-editor.org/rfc/rfc9110#section-5.3
    """
    found = dict(lines)
    if len(found) < len(lines):
        for each in _LISTS & found.keys():
            found[each] = b", ".join(value for name, value in lines if name == each)
    return found


def check_host(lines: Sequence[tuple[bytes, bytes]], headers: Headers, version: str) -> None:
    """Raises BadRequest for several hosts, or none: gateways may take another one than we do.

    https://www.rfc-editor.org/rfc/rfc9112#section-3.2
    """
    if b"host" not in headers:
        if version == "1.1":
            raise BadRequest("a request of HTTP/1.1 needs the header Host")
    elif len(headers) < len(lines) and [name for name, _ in lines].count(b"host") > 1:
        raise BadRequest("a request has one header Host, not several")


def check_coding(codings: bytes, version: str) -> None:
    """Raises UnknownCoding for a transfer that is coded before it is chunked.

    One that is not chunked at last is none whose end can be known: the parser refuses it. In
    HTTP/1.0 there is none, and others may see its end elsewhere; raises Malformed:
    https://www.rfc-editor.org/rfc/rfc9112#section-6.1
    """
    if version == "1.0":
        raise Malformed("a request of HTTP/1.0 has no Transfer-Encoding; send Content-Length")
    first, _, last = codings.rpartition(b",")
    if first and last.strip().lower() == b"chunked":
        raise UnknownCoding(f"transfer-encoding {first.decode('latin-1')!r} is not read")


def check_type(media: bytes) -> None:
    """Raises Unsupported for a body that says it is something else than JSON in UTF-8.

    curl calls what it sends a form unless told otherwise, and other clients plain text.
    """
    if media == JSON:
        return
    kind, *rest = media.lower().replace(b" ", b"").split(b";")
    parameters = dict(each.partition(b"=")[::2] for each in rest)
    charset = parameters.get(b"charset", b"").strip(b'"') or b"utf-8"
    if (kind in _TYPES or kind.endswith(b"+json")) and charset in (b"utf-8", b"utf8", b"us-ascii"):
        return
    raise Unsupported(
        f"a body of type {media.decode('latin-1')!r} is not read; send application/json in UTF-8",
        code="unsupported_type",
        header="accept",
        supported="application/json",
    )


def identify(headers: Headers) -> str:
    """The client's request id, else the trace id of its traceparent, else a new one.

    https://www.w3.org/TR/trace-context/#traceparent-header
    """
    given = headers.get(b"x-request-id")
    if given is not None and _ID.fullmatch(given):
        return given.decode()
    trace = b"traceparent" in headers and _TRACE.fullmatch(headers[b"traceparent"])
    return trace.group(1).decode() if trace else f"{random.getrandbits(128):032x}"
