"""The shapes of answers in JSON, for the OpenAPI document; what is told of them is all there is."""

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, NonNegativeInt, with_config
from typing_extensions import TypedDict

closed = with_config(ConfigDict(extra="forbid"))

Vector = list[float] | str
"""Numbers, or the base64 of their bytes."""
Matrix = list[list[float]]
Vectors = Matrix | list[str]


@closed
class Fault(TypedDict):
    """What is wrong: code is stable, param the field and index the input at fault."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str
    index: NonNegativeInt | None


@closed
class Told(Fault):
    request_id: str


@closed
class Error(TypedDict):
    error: Told


@closed
class OpenAIError(Error):
    """The message once more as detail, which Voyage's client reads."""

    detail: str


@closed
class CohereError(TypedDict):
    """id: of the request."""

    id: str
    message: str
    code: str
    param: str | None
    index: NonNegativeInt | None


@closed
class Input(TypedDict):
    """What was read of an input, and how many tokens were cut off. windows: if it took several."""

    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt
    windows: NotRequired[NonNegativeInt]


@closed
class Prompt(TypedDict):
    """What was put before each text. name: null for a text of the client's own."""

    name: str | None
    text: str


@closed
class Usage(TypedDict):
    texts: NonNegativeInt
    tokens: NonNegativeInt


@closed
class Timing(TypedDict):
    """Microseconds."""

    tokenize_us: NonNegativeInt
    queue_us: NonNegativeInt
    compute_us: NonNegativeInt
    total_us: NonNegativeInt


@closed
class Account(TypedDict):
    """What the whole request took."""

    prompt: Prompt
    usage: Usage
    timing: Timing


@closed
class Embeddings(Account):
    """With details."""

    embeddings: Vectors
    model: str
    dimensions: NonNegativeInt
    inputs: list[Input]


@closed
class Embedded(Input):
    embedding: Vector


@closed
class Failed(TypedDict):
    error: Fault


@closed
class Partial(Account):
    """With partial: a vector or an error for each input."""

    results: list[Embedded | Failed]
    failed: NonNegativeInt
    model: str
    dimensions: NonNegativeInt


EmbedAnswer = Vectors | Embeddings | Partial


@closed
class Place(TypedDict):
    """embedding: absent in layout block."""

    embedding: NotRequired[Vector]


@closed
class TokenPlace(Place):
    """Offsets are characters and bytes of the text; null for a special token."""

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
    """shape and embeddings: in layout block alone."""

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
    """Of the arrays those that the scheme has, and every option that it has."""

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
class SourceInputs(TypedDict):
    source_sentence: Input
    sentences: list[Input]


@closed
class SideInputs(TypedDict):
    """Of the sides that are texts."""

    a: NotRequired[list[Input]]
    b: NotRequired[list[Input]]


class _Details(TypedDict):
    inputs: NotRequired[SourceInputs | SideInputs]
    prompt: NotRequired[Prompt]
    usage: NotRequired[Usage]
    timing: NotRequired[Timing]


@closed
class Scores(_Details):
    """A row for each a with mode matrix, else a number for each pair; with details, the rest."""

    metric: str
    scores: list[float] | Matrix


@closed
class Best(TypedDict):
    index: NonNegativeInt
    score: float


@closed
class Top(_Details):
    """With top_k: for each a, the best of b."""

    metric: str
    top: list[list[Best]]


SimilarityAnswer = list[float] | Scores | Top


@closed
class TextToken(TypedDict):
    """start and stop are bytes, the others characters; null for a special token."""

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_char: NonNegativeInt | None
    stop_char: NonNegativeInt | None


@closed
class OpenAIEmbedding(TypedDict):
    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: Vector


@closed
class OpenAIUsage(TypedDict):
    prompt_tokens: NonNegativeInt
    total_tokens: NonNegativeInt


@closed
class OpenAIAnswer(TypedDict):
    object: Literal["list"]
    data: list[OpenAIEmbedding]
    model: str
    usage: OpenAIUsage


@closed
class Model(TypedDict):
    """created: when the server was started, in seconds since 1970."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


@closed
class Models(TypedDict):
    object: Literal["list"]
    data: list[Model]


class CohereVectors(TypedDict):
    float: NotRequired[Matrix]
    int8: NotRequired[list[list[int]]]
    uint8: NotRequired[list[list[int]]]
    binary: NotRequired[list[list[int]]]
    ubinary: NotRequired[list[list[int]]]
    base64: NotRequired[list[str]]


@closed
class CohereVersion(TypedDict):
    version: str


@closed
class CohereUnits(TypedDict):
    input_tokens: NonNegativeInt


@closed
class CohereMeta(TypedDict):
    api_version: CohereVersion
    billed_units: CohereUnits
    warnings: NotRequired[list[str]]


@closed
class CohereAnswer(TypedDict):
    """embeddings: of each type that was asked for."""

    id: str
    embeddings: CohereVectors
    texts: list[str]
    meta: CohereMeta
    response_type: Literal["embeddings_by_type"]


@closed
class Live(TypedDict):
    status: Literal["live"]


@closed
class Ready(TypedDict):
    status: Literal["ready"]
    queued_tokens: NonNegativeInt


@closed
class Dimensions(TypedDict):
    full: NonNegativeInt
    allowed: Literal["any"] | list[NonNegativeInt]


@closed
class Info(TypedDict):
    """engine: null until it has started."""

    version: str
    model: str
    source: str
    revision: str | None
    engine: dict[str, Any] | None
    engine_restarts: NonNegativeInt
    prompts: dict[str, str]
    default_prompt: str
    auto_truncate: bool
    dimensions: Dimensions
    int8: str
    limits: dict[str, float]
