"""Process that embeds texts, of which a Dispatcher has several."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from embedwell_models.vectors import Floats


class WorkerFailed(Exception):
    """A failure after which another attempt may succeed."""


class WorkerDied(WorkerFailed):
    """The end of a worker, which the texts may have caused."""


class Worker(Protocol):
    """Handle of a process that embeds texts. in_flight: number of unfinished calls."""

    in_flight: int

    @property
    def free_at(self) -> float:
        """When it takes another call, in seconds of time.monotonic: infinity if that is unknown."""

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        """Begin a call."""

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        """Return the vectors of a call, and the texts rejected: see Encoded.

        Raises WorkerFailed, and BulkError to end the run.
        """

    def note_success(self) -> None:
        """Called after a call that succeeded."""

    def note_failure(self) -> None:
        """Called after a WorkerFailed: the worker may take no call for a while."""
