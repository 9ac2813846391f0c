"""Parts: rows of the input in order, cut by number and by size."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from embedwell_bulk.columns import POSITION, Rows, with_origin
from embedwell_bulk.parts import cut_into_parts


def batches(sizes: list[int], text: str = "x") -> Iterator[tuple[Rows, float]]:
    total, start = sum(sizes), 0
    for size in sizes:
        values = pa.RecordBatch.from_pydict({"text": pa.array([text] * size, pa.string())})
        positions = range(start, start := start + size)
        yield with_origin(values, "f", positions, pa.nulls(size, pa.string())), start / total


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [3, 0, 7], [4, 4, 2], [9, 1]])
def test_parts_do_not_depend_on_the_batches(sizes: list[int]) -> None:
    parts = [*cut_into_parts(batches(sizes), 4)]
    assert [part.rows[POSITION].to_pylist() for part in parts] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]
    assert [(part.index, part.first_row) for part in parts] == [(0, 0), (1, 4), (2, 8)]
    assert parts[0].before == 0 and parts[-1].after == 1


def test_long_texts_end_a_part_early() -> None:
    parts = cut_into_parts(batches([2] * 5, "x" * 1000), 100, max_bytes=3000)
    assert [len(part.rows) for part in parts] == [4, 4, 2]


def test_an_input_without_rows_has_no_parts() -> None:
    assert [*cut_into_parts(iter(()), 4)] == []
