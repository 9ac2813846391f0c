"""How a forward pass is divided among many threads, counted by the kernels' own functions.

`python -m benchmarks.cores` prints a table: the threads that compute, their working memory in
float32, and the balance of products and attention, which is the work of the busiest thread over the
mean. Nothing is computed, so the machine needs no such number of cores.
"""

import ctypes
from collections.abc import Sequence
from ctypes import addressof, byref, c_double, c_int64
from dataclasses import dataclass

from embedwell_models.cpu_backend.abi import ForwardCall, Heads, KernelConfig
from embedwell_models.cpu_backend.library import best_isa, library

THREADS = (1, 2, 4, 8, 16, 32, 64, 96)
TEXTS = {"9": [9], "128": [128], "512": [512], "8192": [8192], "64 x 128": [128] * 64}
"""Lengths of the texts of a pass."""

MODELS = {
    "MiniLM": KernelConfig(
        hidden_size=384, heads=Heads(12, 12, 32), intermediate_size=1536, arrangement=0
    ),
    "base": KernelConfig(
        hidden_size=768, heads=Heads(12, 12, 64), intermediate_size=3072, arrangement=0
    ),
    "Qwen3-0.6B": KernelConfig(
        hidden_size=1024,
        heads=Heads(16, 8, 128),
        intermediate_size=3072,
        arrangement=1,
        gated=True,
        causal=True,
    ),
}


@dataclass(frozen=True)
class Division:
    """The division of a pass: threads that compute, bytes of all of them, and balances."""

    threads: int
    bytes: int
    products: float
    attention: float

    def row(self) -> list[str]:
        """Return the columns of the table."""
        megabytes = f"{self.bytes / 1e6:.0f} MB"
        return [str(self.threads), f"{self.products:.2f}", f"{self.attention:.2f}", megabytes]


class _Division(ctypes.Structure):  # see division.h
    _fields_ = [(name, c_double) for name in ("threads", "bytes", "products", "attention")]


def divide(config: KernelConfig, lengths: Sequence[int], threads: int, isa: str) -> Division:
    """Divide a pass over texts among up to `threads` threads."""
    found, tokens = _Division(), (c_int64 * len(lengths))(*lengths)
    call = ForwardCall(
        config=addressof(config),
        num_layers=1,
        lengths=addressof(tokens),
        num_sequences=len(lengths),
    )
    library(isa).divide_float32(byref(call), c_int64(threads), byref(found))
    return Division(int(found.threads), int(found.bytes), found.products, found.attention)


def main() -> None:
    """Print the table."""
    isa = best_isa("float32")
    if isa is None:
        raise SystemExit("there are no kernels for this processor")
    print("| model | tokens | of threads | compute | products | attention | memory |")
    print("|---|---|---|---|---|---|---|")
    for name, config in MODELS.items():
        for text, lengths in TEXTS.items():
            for threads in THREADS:
                columns = divide(config, lengths, threads, isa).row()
                print(f"| {' | '.join([name, text, str(threads), *columns])} |")


if __name__ == "__main__":
    main()
