"""Interface of a process that embeds texts; a Dispatcher has several."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from embedwell_models.vectors import Floats


class WorkerFailed(Exception):
    """A failure after which another attempt may succeed."""


class WorkerDied(WorkerFailed):
    """The end of a worker, which the texts may have caused."""


class Worker(Protocol):
    """Handle of a process that embeds texts.

    in_flight: number of unfinished calls.
    """

    in_flight: int

    @property
    def free_at(self) -> float:
        """Time when it accepts another call, by time.monotonic; infinity if unknown."""

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        """Begin a call."""

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        """Return the vectors of a call, and the rejected texts: see Encoded.

        Raises WorkerFailed, and BulkError to end the run.
        """

    def note_success(self) -> None:
        """Record that a call succeeded."""

    def note_failure(self) -> None:
        """Record a WorkerFailed; the worker may accept no call for a while."""
