"""Numbers of several processes in one table."""

import os
from collections.abc import Iterator

import pytest

from service.board import Board, table

ROWS = 3


@pytest.fixture
def file() -> Iterator[int]:
    with table(ROWS) as found:
        yield found


def boards(file: int) -> list[Board]:
    return [Board.shared(file, ROWS, row) for row in range(ROWS)]


def test_a_disk_that_fills_up_leaves_room_for_the_table(file: int) -> None:
    found = os.fstat(file)
    assert found.st_size > 0 and found.st_blocks * 512 >= found.st_size


def test_a_total_is_the_sum_of_what_each_has_added(file: int) -> None:
    found = boards(file)
    slots = [board.take() for board in found]
    assert slots == [0, 0, 0]
    for number, board in enumerate(found, 1):
        board.row[0] += number
    assert [board.total(0) for board in found] == [6, 6, 6]


def test_slots_are_taken_once() -> None:
    board = Board.alone()
    first, second, third = board.take(), board.take(5), board.take()
    assert (first, second, third) == (0, 1, 6)
    board.row[second] += 1
    assert [board.total(slot) for slot in (first, second, third)] == [0, 1, 0]


def test_who_takes_the_row_of_another_goes_on_where_that_stopped(file: int) -> None:
    one, other, _ = boards(file)
    other.row[other.take()] += 3
    again = Board.shared(file, ROWS, 1)
    again.row[again.take()] += 1
    assert one.total(one.take()) == 4
