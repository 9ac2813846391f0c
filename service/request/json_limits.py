"""How many fields, lists and values a body has: counted before it is parsed.

To validate millions of them takes seconds, in which the event loop stands still.
"""

import numpy as np

from service.errors import TooLarge

MOST = {
    b":": ("fields", 10_000),
    b"{": ("objects", 10_000),
    b"[": ("lists", 50_000),
    b",": ("values", 1_000_000),
}
"""By the sign that each part has, outside of strings; of commas one less than of values."""

_FEWEST = min(most for _, most in MOST.values())


def check_parts(text: bytes) -> None:
    """Raises TooLarge for a body of more parts than a request has any use for."""
    if len(text) <= _FEWEST:
        return
    many = [sign for sign, (_, most) in MOST.items() if text.count(sign) > most]
    if not many:
        return
    plain = _outside(text)
    for sign in many:
        name, most = MOST[sign]
        if plain.count(sign) > most:
            raise TooLarge(f"the body has more than {most} {name}", code="too_many_parts")


def _outside(text: bytes) -> bytes:
    # What is outside of strings: before the first quotation mark, after the second, and so on.
    signs = np.frombuffer(text.replace(rb"\\", b"").replace(rb"\"", b""), np.uint8)
    return signs[~np.logical_xor.accumulate(signs == ord('"'))].tobytes()
