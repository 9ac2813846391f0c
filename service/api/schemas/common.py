"""Shapes: what answers have in common: vectors, errors, and the truth about inputs."""

from typing import Literal, NotRequired

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
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str
    index: NonNegativeInt | None


@closed
class Told(Fault):
    request_id: str


@closed
class Error(TypedDict):
    """The message is error, as TEI's and Ollama's clients read it; error_type is TEI's word."""

    error: str
    error_type: Literal["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]
    code: str
    param: str | None
    index: NonNegativeInt | None
    request_id: str


@closed
class OpenAIError(TypedDict):
    """The message once more as detail, which Voyage's client reads."""

    error: Told
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
