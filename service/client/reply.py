"""Answers of the server as the clients in Python give them: numpy arrays."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
import orjson

Array = np.ndarray[Any, Any]

_WHOLE = {"positions", "pairs", "buckets", "distances"}


@dataclass(frozen=True, slots=True)
class Tokens:
    """What became of a text: vectors (N, dim), one for each of items.

    items: what is told of the tokens, or of the spans or chunks. dropped: tokens that were cut off.
    """

    items: list[dict[str, Any]]
    vectors: Array
    dropped: int


def content(found: httpx.Response) -> Any:
    """JSON as it is."""
    return orjson.loads(found.content)


def limits(found: httpx.Response) -> Mapping[str, int]:
    """Those of /info by which requests are made."""
    told = content(found)["limits"]
    return {name: int(told[name]) for name in ("max_texts", "max_tokens", "max_body_bytes")}


def array(found: httpx.Response) -> Array:
    """The array of an answer in bytes."""
    shape = [int(size) for size in found.headers["x-shape"].split(",")]
    return np.frombuffer(found.content, _little(found.headers["x-dtype"])).reshape(shape)


def _little(dtype: str) -> np.dtype[Any]:
    plain = {"binary": "int8", "ubinary": "uint8"}.get(dtype, dtype)
    return np.dtype(plain).newbyteorder("<")


def tokens(found: httpx.Response) -> list[Tokens]:
    """The answer of /tokens in layout block."""
    answer = content(found)
    dtype = _little(answer["dtype"])
    return [
        Tokens(
            next(result[name] for name in ("tokens", "spans", "chunks") if name in result),
            np.frombuffer(b64decode(result["embeddings"]), dtype).reshape(result["shape"]).copy(),
            result["dropped"],
        )
        for result in answer["results"]
    ]


def scores(found: httpx.Response) -> Array:
    """The answer of /similarity."""
    answer = content(found)
    if "scores" in answer:
        return np.array(answer["scores"], np.float32)
    best = [[(each["index"], each["score"]) for each in row] for row in answer["top"]]
    return np.array(best, [("index", np.int64), ("score", np.float32)])


def arrays(found: httpx.Response) -> dict[str, Any]:
    """The answer of /positions, with arrays for lists."""
    answer = content(found)
    return {
        name: _numbers(name, each) if isinstance(each, list) else each
        for name, each in answer.items()
    }


def _numbers(name: str, listed: list[Any]) -> Array:
    if name in _WHOLE:
        return np.array(listed, np.int64)
    # JSON has no word for the minus infinity that keeps a query from a later key.
    return np.nan_to_num(np.array(listed, np.float32), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
