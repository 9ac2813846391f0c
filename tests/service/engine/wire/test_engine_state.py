"""Whether a model's engine runs, as all processes see it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from embedwell.engine.wire.engine_state import (
    CounterSlot,
    EngineState,
    ModelState,
    SharedCounters,
    counters_file,
)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def test_other_processes_see_the_state() -> None:
    with counters_file(2) as file:
        writer, reader = (ModelState(SharedCounters.attach(file, 2, row)) for row in (1, 0))
    assert reader.engine is EngineState.RUNNING, "as of a server that loads its only model"
    for state in (EngineState.UNLOADED, EngineState.FAILED, EngineState.RUNNING):
        writer.set(state)
        assert reader.engine is state


def test_the_time_until_a_model_is_loaded_is_that_of_its_latest_load() -> None:
    clock = Clock()
    state = ModelState(SharedCounters.private(), clock)
    state.set(EngineState.UNLOADED)
    state.note_loaded(20.0)
    assert state.seconds_until_loaded == 20
    clock.now += 100
    assert state.seconds_until_loaded == 20, "it is not loading yet"
    state.set(EngineState.RUNNING)
    clock.now += 12.5
    assert (state.seconds, state.seconds_until_loaded) == (12.5, 8)
    clock.now += 100
    assert state.seconds_until_loaded == 1, "it takes longer than the last time"


ROWS = 3


@pytest.fixture
def file() -> Iterator[int]:
    with counters_file(ROWS) as descriptor:
        yield descriptor


def attach(file: int) -> list[SharedCounters]:
    return [SharedCounters.attach(file, ROWS, row) for row in range(ROWS)]


def test_the_disk_space_of_the_counters_is_allocated_at_the_start(file: int) -> None:
    status = os.fstat(file)
    assert status.st_size > 0 and status.st_blocks * 512 >= status.st_size


def test_a_total_is_the_sum_over_all_processes(file: int) -> None:
    tables = attach(file)
    [slot] = {counters.allocate() for counters in tables}
    for number, counters in enumerate(tables, 1):
        counters.row[slot] += number
    assert [counters.total(slot) for counters in tables] == [6, 6, 6]
    assert [tables[0].read(slot, row) for row in range(ROWS)] == [1, 2, 3]


def test_allocated_slots_are_unique_and_differ_from_the_named_ones() -> None:
    counters = SharedCounters.private()
    first, second, third = counters.allocate(), counters.allocate(5), counters.allocate()
    gauges = counters.allocate(2, gauge=True), counters.allocate(gauge=True)
    slots = [first, *range(second, second + 5), third, gauges[0], gauges[0] + 1, gauges[1]]
    assert len(slots) == len({*slots, *CounterSlot} - {*CounterSlot})


@pytest.mark.parametrize("gauge", [False, True])
def test_more_counters_than_there_are_slots_are_refused(gauge: bool) -> None:
    counters = SharedCounters.private()
    with pytest.raises(ValueError, match="too few slots"):
        counters.allocate(10_000, gauge=gauge)


def test_a_restarted_process_continues_the_counts_of_its_row(file: int) -> None:
    first, second, _ = attach(file)
    second.row[second.allocate()] += 3
    restarted = SharedCounters.attach(file, ROWS, 1)
    restarted.row[restarted.allocate()] += 1
    assert first.total(first.allocate()) == 4


def test_clearing_gauges_keeps_the_counters(file: int) -> None:
    first, second, _ = attach(file)
    count, gauge = second.allocate(), second.allocate(gauge=True)
    second.row[count] = second.row[gauge] = first.row[gauge] = 7
    first.clear_gauges(1)
    assert (first.read(count, 1), first.read(gauge, 1), first.read(gauge, 0)) == (7, 0, 7)
