"""Numbers of several processes in one table."""

from pathlib import Path

from service.board import Board


def boards(file: Path, rows: int) -> list[Board]:
    return [Board.shared(file, rows, row) for row in range(rows)]


def test_a_total_is_the_sum_of_what_each_has_added(tmp_path: Path) -> None:
    found = boards(tmp_path / "board", 3)
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


def test_who_takes_the_row_of_another_goes_on_where_that_stopped(tmp_path: Path) -> None:
    one, other = boards(tmp_path / "board", 2)
    other.row[other.take()] += 3
    again = Board.shared(tmp_path / "board", 2, 1)
    again.row[again.take()] += 1
    assert one.total(one.take()) == 4
