"""Serialise responses as JSON: numpy arrays from their buffers, large responses in a thread."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import run_in_thread

LARGE_REQUEST = 1 << 20
"""A response that needs more bytes of memory than this is serialised in a thread."""

# Maximum sizes for one orjson call, which holds the GIL.
_CHUNK_NUMBERS, _CHUNK_ITEMS = 1 << 15, 64


def dump(content: Any) -> bytes:
    """Serialise content as JSON in one call."""
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


async def dump_response(context: RequestContext, content: Any) -> bytes:
    """Serialise a response as JSON, in a thread and in chunks if the request is large."""
    if context.memory.size <= LARGE_REQUEST:
        return dump(content)
    return await run_in_thread(lambda: dump(_dump_parts(content)), small=False)


def _dump_parts(content: Any) -> Any:
    """Replace the large parts of content with their JSON."""
    if isinstance(content, dict):
        return {name: _dump_parts(value) for name, value in content.items()}
    if isinstance(content, np.ndarray) and content.ndim > 2:
        return list(map(_dump_parts, content))
    if isinstance(content, np.ndarray) and content.ndim > 1:
        return _dump_chunks(content, max(1, _CHUNK_NUMBERS // max(1, content[:1].size)))
    if isinstance(content, list):
        items = list(map(_dump_parts, content)) if _has_nested_items(content) else content
        return _dump_chunks(items, _CHUNK_ITEMS)
    return content


def _has_nested_items(items: Sequence[Any]) -> bool:
    """Return whether items may have large parts, judging by the first: all items are alike."""
    first = next(iter(items), None)
    parts = first.values() if isinstance(first, dict) else [first]
    return any(isinstance(part, (list, dict)) or getattr(part, "ndim", 1) > 1 for part in parts)


def _dump_chunks(items: Any, size: int) -> orjson.Fragment:
    chunks = (dump(items[start : start + size])[1:-1] for start in range(0, len(items), size))
    return orjson.Fragment(b"[" + b",".join(chunks) + b"]")
