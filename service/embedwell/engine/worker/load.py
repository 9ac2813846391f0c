"""Load a model with the settings."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import Magnitudes
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.cpus import available_cpus
from embedwell_models.encoder.threads import set_thread_count
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.precision.trials import Trial

if TYPE_CHECKING:  # an engine needs none of it
    from embedwell.settings.settings import Settings

log = logging.getLogger("embedwell.engine")

E = TypeVar("E", bound=TokenIdEmbedder)


Options: TypeAlias = "Settings | EngineSpec"
"""Settings of the model; the instruction set is for the whole process, and 0 threads mean one on
each available processor."""


def load(folder: str | Path, options: Options) -> Embedder:
    """Load the model of a folder into this process, with its tokenizer.

    Raises ModelError if the model, device or precision is not available.
    """
    return load_as(Embedder, folder, options)


def load_as(
    kind: type[E],
    folder: str | Path,
    options: Options,
    previous: StartupChoices | None = None,
    input_magnitudes: Magnitudes | None = None,
) -> E:
    """Load the model of a folder into this process.

    Raises ModelError if the model, device or precision is not available.

    kind: a TokenIdEmbedder loads the tokenizer when it needs it. previous: choices of an earlier
    load, which are reused. input_magnitudes: also of that load.
    """
    library.cap_isa(options.isa)
    set_thread_count(options.threads or available_cpus())
    embedder = kind.load(
        folder,
        device=previous.device if previous else options.device,
        dtype=previous.dtype if previous else options.dtype,
        pooling=options.pooling,
        rerank_format=options.rerank_format,
        adapter=options.adapter,
        unicode_normalization=options.unicode_normalization,
        cuda_graphs=options.cuda_graphs,
        trials=[Trial(**trial) for trial in previous.trials] if previous else None,
        input_magnitudes=input_magnitudes,
        fingerprint=previous.fingerprint if previous else None,
    )
    if embedder.why_torch and embedder.device.type == "cpu" and options.isa != "none":
        _warn_without_kernels()
    return embedder


def _warn_without_kernels() -> None:
    if not library.processor_has_kernels():
        log.warning(
            "SLOW: there are no compiled kernels for this processor, and PyTorch takes several "
            "times as long. They are for Linux on x86-64 with AVX2 or newer, and for ARM64"
        )
    elif library.kernels_missing():
        compile_log = library.FOLDER / "compile.log"
        log.warning(
            "SLOW: this package has no compiled kernels, and PyTorch takes several times as long. "
            "Install the wheel for this platform (manylinux or macosx), or a C++ compiler (g++ or "
            "clang), then run `make kernels` in the checkout%s",
            f"; the compiler's output is in {compile_log}" if compile_log.exists() else "",
        )
