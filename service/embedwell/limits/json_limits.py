"""Limit the fields, lists and values of a body before it is parsed.

Validating millions of them would block the event loop for seconds.
"""

import numpy as np

from embedwell.errors import TooLarge

LIMITS = {
    b":": ("fields", 10_000),
    b"{": ("objects", 10_000),
    b"[": ("lists", 50_000),
    b",": ("values", 1_000_000),
}
"""Limit of each kind of part, by the character that counts it outside strings."""

_SMALLEST_LIMIT = min(limit for _, limit in LIMITS.values())


def check_parts(text: bytes) -> None:
    """Raise TooLarge for a body with too many parts."""
    if len(text) <= _SMALLEST_LIMIT:
        return
    exceeded = [char for char, (_, limit) in LIMITS.items() if text.count(char) > limit]
    if not exceeded:
        return
    stripped = _strip_strings(text)
    for char in exceeded:
        name, limit = LIMITS[char]
        if stripped.count(char) > limit:
            raise TooLarge(
                f"the body has more than {limit} {name}; split the request", code="too_many_parts"
            )


def _strip_strings(text: bytes) -> bytes:
    # Keep the bytes before the first quotation mark, after the second, and so on.
    chars = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    return chars[~np.logical_xor.accumulate(chars == ord('"'))].tobytes()
