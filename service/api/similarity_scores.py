"""How close vectors are: all with all, in pairs, or the closest."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import orjson

from models.vectors import METRICS, Floats
from service.errors import BadRequest
from service.request.limits import check_values
from service.request.run_in_thread import run_in_thread

_SMALL = 1 << 20  # multiplications, of a few milliseconds: to ask a thread costs more than fewer do
_ENTRY = 256  # of them take as long as to write down a score


class Question(Protocol):
    """What is asked: see service.api.similarity."""

    @property
    def metric(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def top_k(self) -> int | None: ...


async def compare(a: Floats, b: Floats, asked: Question, most: int) -> dict[str, Any]:
    """The scores that are asked for; many of them beside the event loop.

    Raises BadRequest for what cannot be compared, TooLarge for more than `most` numbers.
    """
    work = partial(_compare, a, b, asked, most)
    small = len(a) * len(b) * max(a.shape[1], _ENTRY) <= _SMALL
    return await run_in_thread(work, small)


def scores(metric: str, a: Floats, b: Floats) -> Floats:
    """Every a with every b: (…, A, D), (…, B, D) -> (…, A, B).

    Raises BadRequest where a score is no number of float32.
    """
    with np.errstate(over="ignore"):
        found = METRICS[metric](a, b)
    if not np.isfinite(found).all():
        raise BadRequest(
            f"a {metric} is beyond float32, the vectors are too long; cosine has no such bound",
            code="not_finite",
            param="metric",
        )
    return found


def _compare(a: Floats, b: Floats, asked: Question, most: int) -> dict[str, Any]:
    if asked.mode == "pairwise":
        return {"scores": _pairwise(a, b, asked)}
    check_values(len(a) * len(b), most)
    if asked.top_k is None:
        return {"scores": scores(asked.metric, a, b)}
    check_values(2 * len(a) * min(asked.top_k, len(b)), most)  # indices are numbers, too
    return {"top": _best(scores(asked.metric, a, b), asked.top_k)}


def _pairwise(a: Floats, b: Floats, asked: Question) -> Floats:
    if len(a) != len(b):
        raise BadRequest(f"a has {len(a)} entries, b has {len(b)}", param="mode")
    if asked.top_k is not None:
        raise BadRequest("top_k goes with mode matrix", param="top_k")
    return scores(asked.metric, a[:, None], b[:, None])[:, 0, 0]


def _best(found: Floats, k: int) -> Sequence[orjson.Fragment]:
    order = np.argsort(-found, axis=1, kind="stable")[:, :k]
    return [_entries(best, row[best]) for row, best in zip(found, order, strict=True)]


def _entries(indices: Any, row: Floats) -> orjson.Fragment:
    # As bytes at once: a million entries would be 300 MB of objects.
    pairs = zip(indices.tolist(), row.tolist(), strict=True)
    return orjson.Fragment(orjson.dumps([{"index": i, "score": score} for i, score in pairs]))
