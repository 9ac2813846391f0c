"""All that one process has of batches."""

from collections.abc import Callable
from pathlib import Path

from service.batches.batch_store import BatchStore
from service.batches.file_store import FileStore
from service.batches.limits import BatchLimits
from service.batches.route_calls import RouteCalls
from service.batches.runner import BatchRunner
from service.errors import Forbidden


class BatchService:
    """Keeps files and batches in a folder, and computes batches unless another process does.

    endpoints: the paths that a batch may be for. run: computes until it is cancelled.
    """

    def __init__(
        self,
        folder: Path,
        limits: BatchLimits,
        calls: RouteCalls,
        busy: Callable[[], bool],
        tokens_per_second: Callable[[], float],
    ) -> None:
        """busy: whether clients wait for the engine. tokens_per_second: 0 if unknown."""
        self.files = FileStore(folder / "files", limits)
        self.batches = BatchStore(folder / "batches", self.files, limits)
        self.endpoints = calls.paths
        self.run = BatchRunner(
            folder,
            self.batches,
            self.files,
            calls,
            limits=limits,
            busy=busy,
            tokens_per_second=tokens_per_second,
        ).run


def enabled(service: BatchService | None) -> BatchService:
    """Raise Forbidden if the server computes no batches."""
    if service is None:
        raise Forbidden(
            "this server computes no batches: set EMBEDDING_BATCH_FOLDER to allow them",
            code="batches_disabled",
        )
    return service
