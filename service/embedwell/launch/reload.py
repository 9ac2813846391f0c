"""Reload the models file of a running server: its models, with the engines that they keep."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Thread

from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.launch.announcements import Announcements
from embedwell.launch.model_engine import ModelEngine
from embedwell.settings.settings import Settings

PlacedModels = Sequence[tuple[Settings, Path]]
"""The settings of each model and its folder, the default model first."""


@dataclass(frozen=True)
class ModelSource:
    """The models file of a server.

    read: returns its models as it is now; raises an exception that says why it cannot be served.
    open: opens what an engine and the HTTP processes share, until the stack is closed; raises
        OSError.
    """

    read: Callable[[], PlacedModels]
    open: Callable[[PlacedModels, ExitStack], tuple[list[InheritedModel], list[int]]]


@dataclass(frozen=True)
class ServedState:
    """Models that HTTP processes serve until the models file is reloaded.

    engines: those of the models, in the same order.
    """

    context: InheritedServer
    engines: Sequence[ModelEngine]
    announcements: Announcements

    @cached_property
    def counters(self) -> list[SharedCounters]:
        """The counters of each model, for the first process."""
        return [each.model.counters(each.model.rows - 1) for each in self.engines]


CreateEngine = Callable[[InheritedModel, int, str], ModelEngine]


def next_state(
    current: ServedState, models: PlacedModels, source: ModelSource, create: CreateEngine
) -> ServedState:
    """Return the state with other models, where those that did not change keep their engines.

    Raises OSError.
    """
    before = [((each.model.settings, each.model.folder), each) for each in current.engines]
    unchanged = [next((each for named, each in before if named == model), None) for model in models]
    engines, contexts = list[ModelEngine](), []
    with ExitStack() as added:  # closed if this fails
        for index, (model, engine) in enumerate(zip(models, unchanged, strict=True)):
            if engine is None:
                engine = _added_engine(model, source, create)  # noqa: PLW2901
                added.callback(engine.resources.close)
            engines.append(engine)
            contexts.append(replace(engine.model, index=index))
        added.pop_all()
    server = replace(current.context, models=contexts)
    announcements = Announcements(server, greeted=current.announcements.greeted)
    return ServedState(server, engines, announcements)


def _added_engine(
    model: tuple[Settings, Path], source: ModelSource, create: CreateEngine
) -> ModelEngine:
    with ExitStack() as resources:  # closed if this fails
        [context], [fd] = source.open([model], resources)
        engine = create(context, fd, f"the engine of {context.label}")
        engine.resources = resources.pop_all()
    return engine


async def read_in_thread(read: Callable[[], PlacedModels]) -> PlacedModels:
    """Read in a thread, which has ended on return: a process with threads is not forked."""
    future: Future[PlacedModels] = Future()
    future.set_running_or_notify_cancel()  # it goes on if the caller is cancelled

    def run() -> None:
        try:
            future.set_result(read())
        except Exception as error:
            future.set_exception(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(future)
    finally:
        if future.done():
            thread.join()


def has_terminal() -> bool:
    """Whether this process has a terminal, which sends SIGHUP when it closes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
