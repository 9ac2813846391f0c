"""Limit fields, lists and values of a body before it is parsed.

To validate millions of them takes seconds, in which the event loop stands still.
"""

import numpy as np

from service.errors import TooLarge

LIMITS = {
    b":": ("fields", 10_000),
    b"{": ("objects", 10_000),
    b"[": ("lists", 50_000),
    b",": ("values", 1_000_000),
}
"""By the sign that each part has, outside of strings; of commas one less than of values."""

_SMALLEST_LIMIT = min(limit for _, limit in LIMITS.values())


def check_parts(text: bytes) -> None:
    """Raise TooLarge for a body with too many parts."""
    if len(text) <= _SMALLEST_LIMIT:
        return
    exceeded = [sign for sign, (_, limit) in LIMITS.items() if text.count(sign) > limit]
    if not exceeded:
        return
    stripped = _strip_strings(text)
    for sign in exceeded:
        name, limit = LIMITS[sign]
        if stripped.count(sign) > limit:
            raise TooLarge(f"the body has more than {limit} {name}", code="too_many_parts")


def _strip_strings(text: bytes) -> bytes:
    # Keep the bytes before the first quotation mark, after the second, and so on.
    signs = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    return signs[~np.logical_xor.accumulate(signs == ord('"'))].tobytes()
