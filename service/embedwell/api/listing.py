"""Lists that clients read page by page."""

from collections.abc import Sequence
from typing import Any


def newest_first_page(items: Sequence[Any], limit: int, after: str) -> dict[str, Any]:
    """Some of a list, the newest first, as OpenAI's clients page through it.

    after: the id of the last one seen.
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
