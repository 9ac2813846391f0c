"""Tests of the quarantine of texts that crashed an engine."""

from dataclasses import replace

import numpy as np

from embedwell.engine.client.quarantine import Quarantine
from embedwell.engine.wire.messages import IMAGE, Job, pack_pixels
from embedwell.engine.wire.shared_counters import SharedCounters, counters_file
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import ids


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def job(*rows: list[int], output: str | int = "dense") -> Job:
    return Job(output, FlatRows.of([ids(row) for row in rows]))


def test_a_text_is_found_in_any_job_of_the_same_output() -> None:
    quarantine = Quarantine(SharedCounters.private())
    assert quarantine.find(job([1, 2])) is None
    quarantine.add(job([1, 2]))
    assert quarantine.find(job([3], [1, 2])) == 1
    assert quarantine.find(job([1], [2])) is None
    assert quarantine.find(job([1, 2], output=3)) is None


def test_a_text_is_released_after_ten_minutes() -> None:
    clock = Clock()
    quarantine = Quarantine(SharedCounters.private(), clock)
    quarantine.add(job([1]))
    clock.now = 300.0
    quarantine.add(job([2]))
    clock.now = 599.0
    assert quarantine.find(job([1])) == 0
    clock.now = 600.0
    assert quarantine.find(job([1])) is None and quarantine.find(job([2])) == 0


def test_of_too_many_texts_the_oldest_is_released() -> None:
    quarantine = Quarantine(SharedCounters.private())
    for number in range(65):
        quarantine.add(job([number]))
    assert quarantine.find(job([0])) is None
    assert quarantine.find(job([1])) == 0 and quarantine.find(job([64])) == 0


def test_a_text_is_quarantined_in_all_processes() -> None:
    with counters_file(2) as file:
        first, second = (Quarantine(SharedCounters.attach(file, 2, row)) for row in (0, 1))
        assert second.find(job([1])) is None
        first.add(job([1]))
        second.add(job([2]))
        assert [quarantine.find(job([3], [2], [1])) for quarantine in (first, second)] == [1, 1]
        assert first.added == second.added == 2


def test_an_image_is_found_by_its_pixels_and_is_no_text() -> None:
    quarantine = Quarantine(SharedCounters.private())
    pixels = [np.full((4, 4, 3), value, dtype=np.uint8) for value in (1, 2)]
    first, second = (
        Job(IMAGE, FlatRows.of([pack_pixels(each)]), image_tokens=5) for each in pixels
    )
    quarantine.add(first)
    both = FlatRows.join([second.texts_ids, first.texts_ids])
    assert quarantine.find(replace(second, texts_ids=both)) == 1
    assert quarantine.find(second) is None
    assert quarantine.find(replace(first, output="dense")) is None
