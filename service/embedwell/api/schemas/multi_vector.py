"""Schemas of responses with a vector for each token."""

from typing import Literal

from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.api.schemas.common import forbid_extra


@forbid_extra
class JinaUsage(TypedDict):
    prompt_tokens: NonNegativeInt
    total_tokens: NonNegativeInt


@forbid_extra
class JinaTokenVectors(TypedDict):
    """The vectors of a text's tokens, as numbers or as all their bytes in base64."""

    object: Literal["embeddings"]
    index: NonNegativeInt
    embeddings: list[list[float]] | str


@forbid_extra
class JinaMultiVectors(TypedDict):
    model: str
    object: Literal["list"]
    usage: JinaUsage
    data: list[JinaTokenVectors]
