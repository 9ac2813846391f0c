"""Worker: this project's own engine."""

import platform
from collections.abc import Iterable, Sequence

import torch

from deploy.benchmark.peers.batching import Floats, Ids
from deploy.benchmark.peers.protocol import Job, Refused, serve
from models import Embedder
from models.errors import ModelError


class Ours:
    """An Embedder; it does not pad."""

    modes = ("packed",)
    padded = False

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        try:
            self._embedder = Embedder.load(job.folder, dtype=job.precision)
        except ModelError as error:
            raise Refused(str(error)) from None
        self._embedder.warm()
        self.about = {"python": platform.python_version(), "torch": torch.__version__}

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        return [self._embedder.encode(rows) for rows in work]


if __name__ == "__main__":
    serve(Ours)
