"""Size classes of requests; the scheduler serves smaller ones sooner."""

SIZE_CLASSES = 16
_QUERY_TOKENS = 64  # requests of up to this many tokens are in the first class


def size_class(tokens: int) -> int:
    """Return the size class: 0 for a query, and one more for each doubling of the tokens."""
    return min(((max(tokens, 1) - 1) // _QUERY_TOKENS).bit_length(), SIZE_CLASSES - 1)


def size_class_limit(size: int) -> int:
    """Return the maximum tokens of a size class; the last class is in fact unlimited."""
    return _QUERY_TOKENS << size
