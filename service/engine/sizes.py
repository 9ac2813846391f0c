"""How large a request is, in classes: the smaller come sooner."""

CLASSES = 16


def size_class(tokens: int) -> int:
    """0 for up to 64 tokens, a query's; one more for each twice as many."""
    return min((max(tokens, 1) - 1 >> 6).bit_length(), CLASSES - 1)
