"""Numbers of several processes in one table."""

import os
from collections.abc import Iterator

import pytest

from service.process.shared_counters import SharedCounters, Slot, counters_file

ROWS = 3


@pytest.fixture
def file() -> Iterator[int]:
    with counters_file(ROWS) as descriptor:
        yield descriptor


def attach(file: int) -> list[SharedCounters]:
    return [SharedCounters.attach(file, ROWS, row) for row in range(ROWS)]


def test_a_disk_that_fills_up_leaves_room_for_the_table(file: int) -> None:
    status = os.fstat(file)
    assert status.st_size > 0 and status.st_blocks * 512 >= status.st_size


def test_a_total_is_the_sum_of_what_each_has_added(file: int) -> None:
    tables = attach(file)
    [slot] = {counters.allocate() for counters in tables}
    for number, counters in enumerate(tables, 1):
        counters.row[slot] += number
    assert [counters.total(slot) for counters in tables] == [6, 6, 6]
    assert [tables[0].read(slot, row) for row in range(ROWS)] == [1, 2, 3]


def test_slots_are_allocated_once_and_none_that_has_a_name() -> None:
    counters = SharedCounters.private()
    first, second, third = counters.allocate(), counters.allocate(5), counters.allocate()
    gauges = counters.allocate(2, gauge=True), counters.allocate(gauge=True)
    slots = [first, *range(second, second + 5), third, gauges[0], gauges[0] + 1, gauges[1]]
    assert len(slots) == len({*slots, *Slot} - {*Slot})


def test_a_process_that_takes_the_row_of_another_goes_on_where_that_stopped(file: int) -> None:
    one, other, _ = attach(file)
    other.row[other.allocate()] += 3
    again = SharedCounters.attach(file, ROWS, 1)
    again.row[again.allocate()] += 1
    assert one.total(one.allocate()) == 4


def test_what_a_process_had_at_its_end_is_cleared_without_knowing_what_it_was(file: int) -> None:
    one, other, _ = attach(file)
    count, gauge = other.allocate(), other.allocate(gauge=True)
    other.row[count] = other.row[gauge] = one.row[gauge] = 7
    one.clear_gauges(1)
    assert (one.read(count, 1), one.read(gauge, 1), one.read(gauge, 0)) == (7, 0, 7)
