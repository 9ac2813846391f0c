"""Read the server's responses into numpy arrays."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

Array = np.ndarray[Any, Any]

_INTEGERS = {"positions", "pairs", "buckets", "distances"}


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The vectors of a text's tokens, spans or chunks: (N, dim), one for each of items.

    items: descriptions of the tokens, spans or chunks.
    dropped: number of tokens that were cut off.
    """

    items: list[dict[str, Any]]
    vectors: Array
    dropped: int


@dataclass(frozen=True, slots=True)
class SparseWeights:
    """A sparse vector: indices (n,) of vocabulary entries, ascending, and their weights (n,)."""

    indices: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class Neighbor:
    """A neighbour of a text.

    index: index among the candidates, or the word's row in the table.
    """

    index: int
    text: str
    score: float


def content(response: httpx.Response) -> Any:
    """Parse JSON."""
    return response.json()


def limits(response: httpx.Response) -> Mapping[str, int]:
    """Return the limits in /info on which the size of requests depends."""
    values = content(response)["limits"]
    return {name: int(values[name]) for name in ("max_texts", "max_tokens", "max_body_bytes")}


def array(response: httpx.Response) -> Array:
    """Read the array of a binary response."""
    shape = [int(size) for size in response.headers["x-shape"].split(",")]
    return np.frombuffer(response.content, _little_endian(response.headers["x-dtype"])).reshape(
        shape
    )


def _little_endian(dtype: str) -> np.dtype[Any]:
    stored = {"binary": "int8", "ubinary": "uint8"}.get(dtype, dtype)
    return np.dtype(stored).newbyteorder("<")


def tokens(response: httpx.Response) -> list[TokenVectors]:
    """Read the results of /tokens in layout block."""
    body = content(response)
    dtype = _little_endian(body["dtype"])
    return [
        TokenVectors(
            next(result[name] for name in ("tokens", "spans", "chunks") if name in result),
            np.frombuffer(b64decode(result["embeddings"]), dtype).reshape(result["shape"]).copy(),
            result["dropped"],
        )
        for result in body["results"]
    ]


def sparse(response: httpx.Response) -> list[SparseWeights]:
    """Read the results of /embed_sparse."""
    return [
        SparseWeights(
            np.array([entry["index"] for entry in entries], np.int32),
            np.array([entry["value"] for entry in entries], np.float32),
        )
        for entries in content(response)
    ]


def scores(response: httpx.Response) -> Array:
    """Read the scores of /similarity, or its top k."""
    body = content(response)
    if "scores" in body:
        return np.array(body["scores"], np.float32)
    best = [[(item["index"], item["score"]) for item in row] for row in body["top"]]
    return np.array(best, [("index", np.int64), ("score", np.float32)])


def ranking(response: httpx.Response) -> Array:
    """Read the results of /rerank, best first."""
    results = content(response)["results"]
    best = [(item["index"], item["relevance_score"]) for item in results]
    return np.array(best, [("index", np.int64), ("score", np.float32)])


def neighbors(response: httpx.Response) -> list[list[Neighbor]]:
    """Read the results of /neighbors: for each input, nearest first."""
    return [[Neighbor(**item) for item in near] for near in content(response)["neighbors"]]


def analogy(response: httpx.Response) -> list[Neighbor]:
    """Read the results of /analogy, best first."""
    return [Neighbor(**item) for item in content(response)["neighbors"]]


def odd_text(response: httpx.Response) -> str:
    """Read the text that /doesnt_match chose."""
    return str(content(response)["text"])


def arrays(response: httpx.Response) -> dict[str, Any]:
    """Read the response of /positions, with arrays for lists."""
    body = content(response)
    return {
        name: _numbers(name, value) if isinstance(value, list) else value
        for name, value in body.items()
    }


def _numbers(name: str, values: list[Any]) -> Array:
    if name in _INTEGERS:
        return np.array(values, np.int64)
    # JSON cannot represent the minus infinity that masks later keys from a query.
    return np.nan_to_num(np.array(values, np.float32), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
