"""Loads a model as settings say; importing this imports torch."""

import logging
from pathlib import Path

import torch

from models import isa
from models.embedder import Embedder
from service.engine.cpus import allotted

log = logging.getLogger("service.engine")


def load(folder: str | Path, device: str, dtype: str, threads: int) -> Embedder:
    """An embedder that computes on `threads` threads, 0 meaning as many as are allotted.

    Raises ModelError when the model, device or precision cannot be had.
    """
    torch.set_num_threads(threads or allotted())
    # float32 is exact on a GPU, too: TF32, which an image's environment may ask for, is not.
    torch.set_float32_matmul_precision("highest")
    # cuDNN plans anew for every shape of a batch, takes tens of milliseconds for it and keeps each.
    torch.backends.cuda.enable_cudnn_sdp(False)
    embedder = Embedder.load(folder, device=device, dtype=dtype)
    if embedder.device.type == "cpu" and isa.unbuilt():
        log.warning(
            "no compiled kernels: batches take several times as long as they could; install a C++ "
            "compiler (g++ or clang), and then this package again (in its checkout: make clean)"
        )
    return embedder
