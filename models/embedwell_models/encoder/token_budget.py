"""Division of texts into batches with a limited number of tokens."""

from collections.abc import Iterator, Sequence


def batches_of_similar_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices of texts of similar length, with at most `budget` tokens or a single text."""
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[index] > budget:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch
