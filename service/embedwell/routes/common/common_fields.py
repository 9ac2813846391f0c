"""Types of requests and responses, and descriptions of the fields that many of them have.

The docstring of a type describes its other fields, and has precedence.
"""

from typing import Final, TypeVar

from embedwell.http import field_descriptions
from embedwell.http.field_descriptions import DescribedModel

T = TypeVar("T", bound=type)

REQUEST_FIELDS: Final = {
    "add_special_tokens": "Must be true or absent: texts always get the model's special tokens.",
    "dimensions": (
        "Number of dimensions that are kept of each vector, from 1 to the model's, for a model "
        "trained for it (Matryoshka); `/info` lists the allowed numbers. Default: all."
    ),
    "embed_dtype": "Number type of base64, in vLLM's API. Default: float32.",
    "encoding_format": (
        "`float` for numbers, or `base64` for the little-endian bytes of each vector. "
        "Default: `float`."
    ),
    "endianness": "Byte order of base64 in vLLM's API: always little-endian, as both values say.",
    "model": (
        "Name of a served model; `/v1/models` lists them. Default: the first model that this "
        "route can use."
    ),
    "normalize": "Whether each vector is scaled to length 1. Default: true.",
    "options": "Sent by Hugging Face's clients; ignored.",
    "output_dimension": (
        "Number of dimensions that are kept of each vector, from 1 to the model's. Default: all."
    ),
    "output_dtype": (
        "Number type of the vectors: `int8` and `uint8` are scaled by each vector's largest "
        "component, and `binary` and `ubinary` have one bit for each dimension, 8 in a byte. "
        "Default: float32."
    ),
    "prompt": "A text that is put in front of each input as it is; at most one field selects one.",
    "prompt_name": "Name of one of the model's prompts, which `/info` lists.",
    "truncation_side": (
        "Side at which tokens of a text that is too long are cut off: `left` is its start. "
        "Default: the side that the model's tokenizer configures, usually the end."
    ),
}
"""Fields of requests."""

RESPONSE_FIELDS: Final = {
    "created": "Time of the response, in seconds since 1970.",
    "data": "The results, one for each input, in the request's order.",
    "dimensions": "Number of dimensions of each vector.",
    "dropped": "Number of tokens that were cut off; 0 if the text was read whole.",
    "embedding": "The vector of the input: numbers, or their bytes in base64.",
    "embeddings": "The vectors of the inputs, in the request's order.",
    "id": "The request's id, which the header `x-request-id` has, too.",
    "index": "Position in the request's list, from 0.",
    "inputs": "Token counts of the inputs, in the request's order.",
    "meta": "Cohere's description of the request: API version and token counts.",
    "model": "Name of the model that computed the response.",
    "object": "Kind of the object, in OpenAI's format.",
    "prompt": "The prompt that was put in front of each text.",
    "request_id": "The request's id, which the header `x-request-id` has, too.",
    "timing": "How long each step of the request took.",
    "tokens": "Number of tokens that the model read, with special tokens and the prompt.",
    "truncated": "Whether tokens were cut off because the text was too long.",
    "usage": "Number of tokens of the request.",
}
"""Fields of responses."""


class RequestModel(DescribedModel):
    """Base class of the types of requests."""

    common_fields = REQUEST_FIELDS


def describe_fields(cls: T) -> T:
    """Describe the fields of a TypedDict of responses."""
    return field_descriptions.describe_fields(cls, RESPONSE_FIELDS)


def forbid_extra(cls: T) -> T:
    """Mark the TypedDict of responses that have no other fields, and describe its fields."""
    return field_descriptions.forbid_extra(cls, RESPONSE_FIELDS)
