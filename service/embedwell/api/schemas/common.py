"""Schemas that several APIs share: vectors, errors, token counts and timings."""

from typing import Literal, NotRequired

from pydantic import ConfigDict, NonNegativeInt, with_config
from typing_extensions import TypedDict

forbid_extra = with_config(ConfigDict(extra="forbid"))

Vector = list[float] | str
"""A vector as numbers, or as their bytes in base64."""
Matrix = list[list[float]]
Vectors = Matrix | list[str]


@forbid_extra
class Fault(TypedDict):
    """An error.

    - `code`: a stable identifier for programs.
    - `param`, `index`: the field and the input that caused the error.
    """

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str
    index: NonNegativeInt | None


@forbid_extra
class Told(Fault):
    """An error with the id of its request."""

    request_id: str


@forbid_extra
class Error(TypedDict):
    """An error in the format for TEI's and Ollama's clients.

    - `error`: the message.
    - `error_type`: TEI's category.
    """

    error: str
    error_type: Literal["Validation", "Empty", "Overloaded", "Unhealthy", "Backend"]
    code: str
    param: str | None
    index: NonNegativeInt | None
    request_id: str


@forbid_extra
class OpenAIError(TypedDict):
    """An error in OpenAI's format.

    - `detail`: the message again, for Voyage's client.
    """

    error: Told
    detail: str


@forbid_extra
class CohereError(TypedDict):
    """An error in Cohere's format.

    - `id`: the request's id.
    """

    id: str
    message: str
    code: str
    param: str | None
    index: NonNegativeInt | None


@forbid_extra
class Input(TypedDict):
    """Token count of an input.

    - `dropped`: number of tokens that were cut off.
    - `windows`: number of windows, if the input was split into several.
    """

    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt
    windows: NotRequired[NonNegativeInt]


@forbid_extra
class Prompt(TypedDict):
    """The prompt before each text.

    - `name`: null if the request has the prompt's text.
    """

    name: str | None
    text: str


@forbid_extra
class Usage(TypedDict):
    texts: NonNegativeInt
    tokens: NonNegativeInt


@forbid_extra
class Timing(TypedDict):
    """Durations in microseconds."""

    tokenize_us: NonNegativeInt
    queue_us: NonNegativeInt
    compute_us: NonNegativeInt
    total_us: NonNegativeInt


@forbid_extra
class RequestSummary(TypedDict):
    """Prompt, usage and timing of the request."""

    prompt: Prompt
    usage: Usage
    timing: Timing
