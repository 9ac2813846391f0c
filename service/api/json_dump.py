"""JSON of responses: numpy arrays straight from their buffers, large ones beside the event loop."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

LARGE = 1 << 20
"""Bytes that a request takes, of which JSON is put together in steps."""
_NUMBERS, _ITEMS = 1 << 15, 64  # written in one step, during which no other thread runs


def dump(content: Any) -> bytes:
    """JSON, at once."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


async def dump_response(context: RequestContext, content: Any) -> bytes:
    """JSON of a response, put together in a thread and in steps where the request is large."""
    if context.memory.size <= LARGE:
        return dump(content)
    return await run_in_thread(lambda: dump(_in_steps(content)), small=False)


def _in_steps(content: Any) -> Any:
    """The same content with its large parts as JSON."""
    if isinstance(content, dict):
        return {name: _in_steps(value) for name, value in content.items()}
    if isinstance(content, np.ndarray) and content.ndim > 2:
        return list(map(_in_steps, content))
    if isinstance(content, np.ndarray) and content.ndim > 1:
        return _joined(content, max(1, _NUMBERS // max(1, content[:1].size)))
    if isinstance(content, list):
        nested = _nested(content)
        return _joined([_in_steps(each) for each in content] if nested else content, _ITEMS)
    return content


def _nested(items: Sequence[Any]) -> bool:
    """Whether items have large parts of their own: those of a response are all of a kind."""
    first = next(iter(items), None)
    parts = first.values() if isinstance(first, dict) else [first]
    return any(isinstance(part, (list, dict)) or getattr(part, "ndim", 1) > 1 for part in parts)


def _joined(items: Any, step: int) -> orjson.Fragment:
    blocks = (dump(items[start : start + step])[1:-1] for start in range(0, len(items), step))
    return orjson.Fragment(b"[" + b",".join(blocks) + b"]")
