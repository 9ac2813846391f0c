"""The stores and the runner of batches in one process."""

from collections.abc import Callable, Sequence
from pathlib import Path

from embedwell.batches.batch import BatchLimits
from embedwell.batches.batch_store import BatchStore
from embedwell.batches.disk_space import DiskSpace
from embedwell.batches.file_store import FileStore
from embedwell.batches.route_calls import RouteCalls
from embedwell.batches.runner import BatchRunner
from embedwell.errors import Forbidden
from embedwell.inference.served_model import ServedModel
from embedwell.settings.settings import Settings

_DAY = 86400  # seconds


class BatchService:
    """The stores of files and batches in a folder, and the runner that computes them.

    endpoints: the paths that a batch can be for.
    run: computes until it is cancelled.
    """

    def __init__(
        self,
        folder: Path,
        limits: BatchLimits,
        calls: RouteCalls,
        busy: Callable[[], bool],
        tokens_per_second: Callable[[], float],
    ) -> None:
        """busy: returns whether clients wait for the engine.

        tokens_per_second: returns the engine's speed; 0 if unknown.
        """
        space = DiskSpace(folder, limits.folder_bytes)
        self.files = FileStore(folder / "files", limits, space)
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


def batch_service(
    settings: Settings, models: Sequence[ServedModel], calls: RouteCalls
) -> BatchService | None:
    """Create the service that the settings enable; None if they name no folder.

    calls: calls the routes that a batch can be for.
    """
    if settings.batch_folder is None:
        return None
    limits = BatchLimits(
        settings.batch_max_file_bytes,
        settings.batch_max_bytes,
        settings.max_body_bytes,
        settings.batch_retention * _DAY,
    )
    return BatchService(
        settings.batch_folder,
        limits,
        calls,
        busy=lambda: any(model.admission.queued_tokens for model in models),
        tokens_per_second=lambda: max(model.engine.rate.latest for model in models),
    )


def require_enabled(service: BatchService | None) -> BatchService:
    """Return the service; raise Forbidden if the server computes no batches."""
    if service is None:
        raise Forbidden(
            "batches are disabled; set EMBEDWELL_BATCH_FOLDER to enable them",
            code="batches_disabled",
        )
    return service
