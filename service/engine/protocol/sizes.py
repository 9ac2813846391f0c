"""How large a request is, in classes: the smaller are due sooner."""

CLASSES = 16
_QUERY = 64  # tokens: requests of no more are all alike


def size_class(tokens: int) -> int:
    """0 for a query; one more for each twice as many tokens."""
    return min(((max(tokens, 1) - 1) // _QUERY).bit_length(), CLASSES - 1)


def max_tokens(size: int) -> int:
    """Tokens of the largest request of a class; the last one has no largest."""
    return _QUERY << size
