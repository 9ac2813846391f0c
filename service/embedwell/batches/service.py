"""The stores and the runner of batches in one process."""

from collections.abc import Sequence
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
        self, folder: Path, settings: Settings, models: Sequence[ServedModel], calls: RouteCalls
    ) -> None:
        """calls: calls the routes that a batch can be for."""
        limits = BatchLimits(
            settings.batch_max_file_bytes,
            settings.batch_max_bytes,
            settings.max_body_bytes,
            settings.batch_retention * _DAY,
        )
        space = DiskSpace(folder, limits.folder_bytes)
        self.files = FileStore(folder / "files", limits, space)
        self.batches = BatchStore(folder / "batches", self.files, limits)
        self.endpoints = calls.paths
        self.run = BatchRunner(
            *(folder, self.batches, self.files, calls),
            limits=limits,
            busy=lambda: any(model.admission.queued_tokens for model in models),
            tokens_per_second=lambda: max(model.engine.rate.latest for model in models),
        ).run


def require_enabled(service: BatchService | None) -> BatchService:
    """Return the service; raise Forbidden if the server computes no batches."""
    if service is None:
        raise Forbidden(
            "batches are disabled; set EMBEDWELL_BATCH_FOLDER to enable them",
            code="batches_disabled",
        )
    return service
