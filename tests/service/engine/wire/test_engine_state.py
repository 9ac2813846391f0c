"""Whether a model's engine runs, as all processes see it."""

from dataclasses import dataclass

from embedwell.engine.wire.engine_state import EngineState, ModelState
from embedwell.engine.wire.shared_counters import SharedCounters, counters_file


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
