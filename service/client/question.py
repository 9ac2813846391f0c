"""What the clients in Python ask a server, and how they read its answers."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Generic, TypedDict, TypeVar

import httpx
import numpy as np
import orjson

from service.client import reply
from service.client.failure import RequestFailed, lost, refused, unreadable
from service.client.reply import Array, Tokens
from service.client.retry import Found

Text = str | Sequence[int]
"""A text or its token ids."""
Side = str | Sequence[str] | Sequence[Sequence[float]] | Array
"""A text, texts, or vectors (B, dim)."""

A = TypeVar("A")
JSON, BYTES = "application/json", "application/octet-stream"

log = logging.getLogger(__name__)


class Reading(TypedDict, total=False):
    """How texts are read; see docs/inputs.md."""

    on_overflow: str | None
    prompt: str | None
    prompt_name: str | None
    input_type: str | None


class EmbedOptions(Reading, total=False):
    """See docs/output.md. late_chunking: the texts are the chunks of one document."""

    normalize: bool
    dimensions: int | None
    output_dtype: str
    late_chunking: bool


class TokensOptions(Reading, total=False):
    """See docs/tokens.md."""

    chunks: Sequence[Sequence[str]] | None
    layer: int | str | None
    spans: Sequence[Sequence[tuple[int, int]]] | None
    pooling: str
    normalize: bool
    output_dtype: str


class SimilarityOptions(Reading, total=False):
    """metric: cosine, dot, euclidean or manhattan. mode: matrix or pairwise."""

    metric: str
    mode: str
    top_k: int | None


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """A request and how its answer is read. first, count: which of the given inputs it has."""

    path: str
    read: Callable[[httpx.Response], A]
    body: bytes = b""
    accept: str = JSON
    first: int = 0
    count: int = 0

    @property
    def method(self) -> str:
        return "POST" if self.body else "GET"

    @property
    def headers(self) -> dict[str, str]:
        return {"content-type": JSON, "accept": self.accept}

    def answer(self, found: Found) -> A:
        """What the server says; raises RequestFailed."""
        if isinstance(found, httpx.RequestError):
            raise lost(found) from found
        if not found.is_success:
            raise refused(found, self.first)
        try:
            return self.read(found)
        except Exception as error:  # what came may be another program's, and anything at all
            raise unreadable(found, error) from error


def limits() -> Question[Mapping[str, int]]:
    return Question("/info", reply.limits)


def info() -> Question[dict[str, Any]]:
    return Question("/info", reply.content)


def embed(
    inputs: list[Text], options: EmbedOptions, limits: Mapping[str, int], batch: int
) -> Iterator[Question[Array]]:
    """Requests of at most so many texts, and of what the server takes at once.

    limits: those of /info.
    """
    most = min(batch, limits["max_texts"])
    # A token has a byte at least, and mostly more.
    body_bytes = limits["max_body_bytes"] - len(dump({"inputs": [], **options}))
    room = min(body_bytes, limits["max_tokens"])
    if options.get("late_chunking"):  # chunks are read together or not at all
        most, room = len(inputs), sys.maxsize

    def read(found: httpx.Response) -> Array:
        if found.headers["x-truncated"] != "0" and options.get("on_overflow") is None:
            log.warning("%s inputs were cut; see on_overflow", found.headers["x-truncated"])
        return reply.array(found)

    for first, part in _batches(inputs, most, room):
        body = dump({"inputs": part, **options})
        yield Question("/embed", read, body, BYTES, first, len(part))


def tokens(texts: str | Sequence[str] | None, options: TokensOptions) -> Question[list[Tokens]]:
    form = {"layout": "block", "encoding_format": "base64"}
    given = {} if texts is None else {"inputs": texts}
    return Question("/tokens", reply.tokens, dump({**given, **form, **options}))


def similarity(a: Side, b: Side, options: SimilarityOptions) -> Question[Array]:
    return Question("/similarity", reply.scores, dump({"a": a, "b": b, **options}))


def positions(options: Mapping[str, Any]) -> Question[dict[str, Any]]:
    return Question("/positions", reply.arrays, dump(options))


def listed(texts: Text | Iterable[Text]) -> list[Any]:
    """One or several as a list, as the server tells them apart; raises TypeError for bytes."""
    _refuse_bytes(texts, "")
    found = [texts] if isinstance(texts, str) else list(texts)
    for index, each in enumerate(found):
        _refuse_bytes(each, f"input {index}: ")
    return [found] if found and isinstance(found[0], Integral) else found


def dump(content: Any, index: int | None = None) -> bytes:
    """JSON; the numbers of numpy as they are.

    index: of the input that it is. Raises RequestFailed for half of a surrogate pair.
    """
    try:
        return orjson.dumps(content, np.ndarray.tolist, orjson.OPT_SERIALIZE_NUMPY)
    except orjson.JSONEncodeError as error:
        if "surrogates" not in str(error):
            raise
        what = "the request" if index is None else f"input {index}"
        told = f"{what} cannot be sent: {error}"
        raise RequestFailed(None, "invalid_request", told, index=index) from None


def _refuse_bytes(given: object, where: str) -> None:
    # A sequence of whole numbers, which token ids are, too.
    if isinstance(given, bytes | bytearray):
        raise TypeError(f"{where}bytes are neither a text nor token ids: decode them")


def _batches(
    inputs: Iterable[Text], most: int, room: int
) -> Iterator[tuple[int, list[orjson.Fragment]]]:
    """Inputs as JSON, at most so many and so many bytes together, with the place of the first."""
    first, size = 0, 0
    part: list[orjson.Fragment] = []
    for place, each in enumerate(inputs):
        json = dump(each, place)
        if part and (len(part) >= most or size + len(json) > room):
            yield first, part
            first, part, size = place, [], 0
        part.append(orjson.Fragment(json))
        size += len(json) + 1  # the comma
    yield first, part  # of no input at all, too: the server says what is wrong with that
