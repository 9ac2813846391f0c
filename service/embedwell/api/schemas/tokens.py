"""Schemas of the responses of /tokens, /tokenize and /positions."""

from typing import NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import Matrix, Vector, forbid_extra


@forbid_extra
class WithEmbedding(TypedDict):
    """Item with its vector.

    - `embedding`: absent in layout block.
    """

    embedding: NotRequired[Vector]


@forbid_extra
class TokenPlace(WithEmbedding):
    """Offsets of a token in characters and bytes of the text; null for a special token.

    - `in_vocabulary`: false for an unknown word or a part of one. In a table of word vectors, the
      vector of an unknown word is the mean of its n-grams' vectors, or zeros.
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
    """Result of one input.

    - `shape`, `embeddings`: only in layout block.
    """

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
    """Response of /positions. Arrays that the scheme does not have are absent.

    - `parameters`: every option of the scheme.
    """

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
    """A token of a text in TEI's format. The offsets are null for a special token.

    - `start`, `stop`: offsets in bytes.
    - `start_char`, `stop_char`: offsets in characters.
    """

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_char: NonNegativeInt | None
    stop_char: NonNegativeInt | None
