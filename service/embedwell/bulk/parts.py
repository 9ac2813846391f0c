"""Split the rows of an input into parts, the same ones in every run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from embedwell.bulk.origin import Rows

MAX_PART_BYTES = 256 << 20  # bytes of the input's columns


@dataclass(frozen=True)
class Part:
    """Rows of the input that become one part of the output.

    first_row: number of the first row in the whole input, from 0.
    before, after: share of the input that has been read before and after it.
    """

    index: int
    first_row: int
    rows: pa.Table
    before: float
    after: float


def cut_into_parts(
    batches: Iterable[tuple[Rows, float]], max_rows: int, max_bytes: int = MAX_PART_BYTES
) -> Iterator[Part]:
    """Yield parts of at most max_rows rows, and of about max_bytes.

    batches: batches, each with the share of the input that has been read with it.
    """
    index = first_row = 0
    before = done = 0.0
    waiting: list[Rows] = []
    count = size = 0
    for rows, done in batches:
        while len(rows):
            taken = rows.slice(0, max_rows - count)
            rows = rows.slice(len(taken))  # noqa: PLW2901 - what is left of it
            waiting.append(taken)
            count, size = count + len(taken), size + taken.nbytes
            if count == max_rows or size >= max_bytes:
                yield Part(index, first_row, pa.Table.from_batches(waiting), before, done)
                index, first_row, before = index + 1, first_row + count, done
                waiting, count, size = [], 0, 0
    if waiting:
        yield Part(index, first_row, pa.Table.from_batches(waiting), before, done)
