"""Schemas of the responses of /tokens, /tokenize and /positions."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from service.api.schemas.common import Matrix, Vector, closed


@closed
class Place(TypedDict):
    """embedding: not in layout block."""

    embedding: NotRequired[Vector]


@closed
class TokenPlace(Place):
    """Offsets in characters and bytes of the text; null for a special token."""

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_byte: NonNegativeInt | None
    stop_byte: NonNegativeInt | None


@closed
class SpanPlace(Place):
    start: NonNegativeInt
    stop: NonNegativeInt


@closed
class ChunkPlace(Place):
    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt


@closed
class Block(TypedDict):
    """shape, embeddings: only in layout block."""

    truncated: bool
    dropped: NonNegativeInt
    shape: NotRequired[list[NonNegativeInt]]
    embeddings: NotRequired[Matrix | str]


@closed
class TextTokens(Block):
    tokens: list[TokenPlace]


@closed
class TextSpans(Block):
    spans: list[SpanPlace]


@closed
class TextChunks(Block):
    chunks: list[ChunkPlace]


@closed
class TokensAnswer(TypedDict):
    layer: NonNegativeInt | str
    dtype: str
    results: list[TextTokens | TextSpans | TextChunks]


@closed
class PositionsAnswer(TypedDict):
    """parameters: every option of the scheme. Arrays that the scheme does not have are absent."""

    scheme: str
    parameters: dict[str, int | float | bool | str | None]
    positions: list[NonNegativeInt]
    vectors: NotRequired[Matrix]
    pairs: NotRequired[list[list[int]]]
    cos: NotRequired[Matrix]
    sin: NotRequired[Matrix]
    slopes: NotRequired[list[float]]
    bias: NotRequired[list[list[list[float | None]]]]
    buckets: NotRequired[list[list[int]]]
    distances: NotRequired[list[int]]


@closed
class TextToken(TypedDict):
    """start, stop: bytes. start_char, stop_char: characters. Null for a special token."""

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_char: NonNegativeInt | None
    stop_char: NonNegativeInt | None
