"""Schemas of the responses of /tokens, /tokenize and /positions."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Matrix, Vector, forbid_extra


@forbid_extra
class WithEmbedding(TypedDict):
    """embedding: not in layout block."""

    embedding: NotRequired[Vector]


@forbid_extra
class TokenPlace(WithEmbedding):
    """Offsets in characters and bytes of the text; null for a special token.

    in_vocabulary: false for an unknown word or part of one. In a table of word vectors, its vector
    is the mean of those of its n-grams, or zeros.
    """

    id: NonNegativeInt
    text: str
    special: bool
    in_vocabulary: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_byte: NonNegativeInt | None
    stop_byte: NonNegativeInt | None


@forbid_extra
class SpanPlace(WithEmbedding):
    start: NonNegativeInt
    stop: NonNegativeInt


@forbid_extra
class ChunkPlace(WithEmbedding):
    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt


@forbid_extra
class Block(TypedDict):
    """shape, embeddings: only in layout block."""

    truncated: bool
    dropped: NonNegativeInt
    shape: NotRequired[list[NonNegativeInt]]
    embeddings: NotRequired[Matrix | str]


@forbid_extra
class TextTokens(Block):
    tokens: list[TokenPlace]


@forbid_extra
class TextSpans(Block):
    spans: list[SpanPlace]


@forbid_extra
class TextChunks(Block):
    chunks: list[ChunkPlace]


@forbid_extra
class TokensAnswer(TypedDict):
    layer: NonNegativeInt | str
    dtype: str
    results: list[TextTokens | TextSpans | TextChunks]


@forbid_extra
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


@forbid_extra
class TextToken(TypedDict):
    """start, stop: bytes. start_char, stop_char: characters. Null for a special token."""

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_char: NonNegativeInt | None
    stop_char: NonNegativeInt | None
