"""Paginated lists."""

from collections.abc import Sequence
from typing import Any


def newest_first_page(items: Sequence[Any], limit: int, after: str) -> dict[str, Any]:
    """Return a page of a list, newest first, in OpenAI's format.

    after: the id of the last item of the previous page.
    """
    rest = [item for item in items if not after or item.id < after]
    shown = [item.model_dump() for item in rest[:limit]]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(rest) > limit,
    }
