"""Types of JSON responses that several APIs share; responses have no other fields."""

from collections.abc import Iterable, Sequence
from typing import Literal, NotRequired

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.http.request_context import RequestContext
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.response_body import Matrix, Vector, Vectors
from embedwell_models.read.inputs import InputRow
from embedwell_models.read.prompts import Prompt as ResolvedPrompt


@forbid_extra
class Input(TypedDict):
    """Token count of an input.

    - `windows`: number of windows, if the text was split into several.
    """

    tokens: NonNegativeInt
    truncated: bool
    dropped: NonNegativeInt
    windows: NotRequired[NonNegativeInt]


@forbid_extra
class Prompt(TypedDict):
    """The prompt before each text.

    - `name`: name of the prompt in the model's files; null if the request has the prompt's text.
    - `text`: the text itself; "" for none.
    """

    name: str | None
    text: str


@forbid_extra
class Usage(TypedDict):
    """Counts of a request.

    - `texts`: number of texts.
    - `tokens`: number of tokens that the model read, with special tokens and prompts.
    """

    texts: NonNegativeInt
    tokens: NonNegativeInt


@forbid_extra
class Timing(TypedDict):
    """Durations in microseconds.

    - `tokenize_us`: time to convert the texts to tokens.
    - `queue_us`: time that the texts waited for the engine.
    - `compute_us`: time of the forward passes with this request's texts.
    - `total_us`: time from the request's arrival until its response was built.
    """

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


@forbid_extra
class OpenAIUsage(TypedDict):
    """Token counts, with one that strict clients of Mistral's and vLLM's APIs expect.

    - `prompt_tokens`, `total_tokens`: number of tokens that the model read, with special tokens and
      prompts.
    - `completion_tokens`: always 0, as no text is generated.
    """

    prompt_tokens: NonNegativeInt
    total_tokens: NonNegativeInt
    completion_tokens: Literal[0]


@forbid_extra
class OpenAIEmbedding(TypedDict):
    """Vector of an input.

    - `object`: always `embedding`.
    """

    object: Literal["embedding"]
    index: NonNegativeInt
    embedding: Vector


@forbid_extra
class Details(RequestSummary):
    """Prompt, usage and timing of the request, and the model."""

    model: str
    dimensions: NonNegativeInt


@forbid_extra
class SparseArrays(TypedDict):
    """A sparse vector: indices of vocabulary entries in ascending order, and their weights.

    - `indices`: ids of the vocabulary entries, in ascending order.
    - `values`: weight of each entry, above 0.
    """

    indices: list[NonNegativeInt]
    values: list[float]


class ComputedOutputs(TypedDict):
    """The kinds of vectors that a request names, and its inputs.

    - `embeddings`: dense vectors, if `outputs` has `dense`.
    - `sparse`: sparse vectors, if `outputs` has `sparse`.
    - `multi`: for each input, a vector for each token, if `outputs` has `multi`.
    """

    embeddings: NotRequired[Vectors]
    sparse: NotRequired[list[SparseArrays]]
    multi: NotRequired[list[Matrix] | list[str]]
    token_ids: NotRequired[list[list[NonNegativeInt]]]
    inputs: list[Input]


@forbid_extra
class Outputs(ComputedOutputs, Details):
    """Response to a request with `outputs`: the kinds of vectors that were requested.

    - `token_ids`: for each entry of `multi`, the ids of its tokens, unless they are pooled.
    """


def openai_embeddings(encoded: Sequence[Vector]) -> list[OpenAIEmbedding]:
    """Return the vectors of the inputs in OpenAI's format."""
    return [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(encoded)
    ]


def token_usage(context: RequestContext) -> OpenAIUsage:
    """Return the token count of a request in OpenAI's format."""
    tokens = context.tokens
    return {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}


def describe_inputs(rows: Iterable[InputRow]) -> list[Input]:
    """Return the token count of each input."""
    return [describe_input(row) for row in rows]


def describe_input(row: InputRow) -> Input:
    """Return the token count of an input."""
    size: Input = {"tokens": row.tokens, "truncated": row.dropped > 0, "dropped": row.dropped}
    return {**size, "windows": len(row.windows)} if row.windows else size


def describe_request(context: RequestContext, prompt: ResolvedPrompt) -> RequestSummary:
    """Return the prompt, usage and timing of a request until now."""
    return {
        "prompt": {"name": prompt.name, "text": prompt.text},
        "usage": {"texts": context.texts, "tokens": context.tokens},
        "timing": {
            "tokenize_us": context.tokenize_us,
            "queue_us": context.queue_us,
            "compute_us": context.compute_us,
            "total_us": context.total_us,
        },
    }
