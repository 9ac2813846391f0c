"""Loads a model as settings say; importing this imports torch."""

import logging
from pathlib import Path
from typing import Protocol

import torch

from models.cpu_backend import library as isa
from models.embedder import Embedder
from models.precision.trials import Trial
from service.engine.protocol.spec import Decisions
from service.engine.worker.cpus import allotted

log = logging.getLogger("service.engine")


class Options(Protocol):
    """The settings that concern the model. isa: one of the library's CAPS, for the whole process.

    threads: 0 for as many as are allotted.
    """

    @property
    def device(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def isa(self) -> str: ...
    @property
    def pooling(self) -> str: ...
    @property
    def threads(self) -> int: ...


def load(folder: str | Path, options: Options, known: Decisions | None = None) -> Embedder:
    """Load the model of a folder for this process.

    known: what was decided in an earlier load of it, which is not tried again.
    Raises ModelError when the model, device or precision cannot be had.
    """
    isa.limit(options.isa)
    torch.set_num_threads(options.threads or allotted())
    # float32 is exact on a GPU, too: TF32, which an image's environment may ask for, is not.
    torch.set_float32_matmul_precision("highest")
    # cuDNN plans anew for every shape of a batch, takes tens of milliseconds for it and keeps each.
    torch.backends.cuda.enable_cudnn_sdp(False)
    embedder = Embedder.load(
        folder,
        device=known.device if known else options.device,
        dtype=known.dtype if known else options.dtype,
        pooling=options.pooling,
        trials=[Trial(**trial) for trial in known.trials] if known else None,
    )
    if known:
        return embedder
    if embedder.sentence.pooling_source == "assumed":
        log.warning(
            "%s has no modules.json: the pooling is taken to be %s, as sentence-transformers does; "
            "EMBEDDING_POOLING names another",
            *(folder, embedder.sentence.pooling[0]),
        )
    if embedder.device.type == "cpu" and isa.unbuilt():
        compile_log = isa.FOLDER / "compile.log"
        log.warning(
            "no compiled kernels: texts take several times as long as they could. Install a C++ "
            "compiler (g++ or clang), then run `make kernels` in the checkout, or install this "
            "package again%s",
            f"; what the compiler said is in {compile_log}" if compile_log.exists() else "",
        )
    return embedder
