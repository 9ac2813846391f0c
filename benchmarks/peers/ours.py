"""Worker: this project's own engine."""

import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.peers.protocol import Floats, Ids, Job, Refused, serve
from embedwell_models import Embedder
from embedwell_models.config.model_options import AUTO
from embedwell_models.cpu_backend import library
from embedwell_models.encoder.threads import set_thread_count
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import SPARSE


class Ours:
    """An Embedder; it does not pad."""

    modes = ("packed",)
    padded = False

    def __init__(self, job: Job) -> None:
        set_thread_count(job.threads)
        library.cap_isa(job.isa)
        pooling = "splade" if job.head == "splade" else AUTO
        try:
            self._embedder = Embedder.load(job.folder, dtype=job.precision, pooling=pooling)
        except ModelError as error:
            raise Refused(str(error)) from None
        self._embedder.warm()
        heads = {"splade": self._weights, "colbert": self._embedder.encode_tokens}
        self._encode: Callable[[Sequence[Ids]], Any] = heads.get(job.head, self._embedder.encode)
        self.about = {"python": platform.python_version(), "torch": torch.__version__}

    def encode(self, work: Sequence[Sequence[Ids]], mode: str) -> Iterable[Floats]:
        return [self._encode(rows) for rows in work]

    def _weights(self, rows: Sequence[Ids]) -> Floats:
        weights = np.zeros((len(rows), self._embedder.dim), dtype=np.float32)
        for row, outputs in zip(weights, self._embedder.outputs(rows, [SPARSE]), strict=True):
            assert outputs.sparse is not None
            row[outputs.sparse.indices] = outputs.sparse.weights
        return weights


if __name__ == "__main__":
    serve(Ours)
