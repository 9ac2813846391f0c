"""Map character offsets of tokens to byte offsets."""

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise

from embedwell_models.tokenizer.tokens import Token

ByteOffsets = Mapping[int | None, int | None]


def byte_offsets(text: str, tokens: Iterable[Token]) -> ByteOffsets:
    """Map the start and stop of tokens to UTF-8 byte offsets; None stays None."""
    borders = {border for token in tokens for border in (token.start, token.stop)}
    offsets = sorted(border for border in borders if border is not None)
    # Encode only from one offset to the next: the rest of a text may be millions of characters.
    sizes = (len(text[start:stop].encode()) for start, stop in pairwise([0, *offsets]))
    return {None: None, **dict(zip(offsets, accumulate(sizes), strict=True))}
