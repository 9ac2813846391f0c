"""Load a model with the settings."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.encoder.cpus import available_cpus
from embedwell_models.encoder.threads import set_thread_count
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.precision.measurement_cache import LoadMeasurements

if TYPE_CHECKING:
    from embedwell_models.embedder import Embedder

log = logging.getLogger("embedwell.engine")

E = TypeVar("E", bound=TokenIdEmbedder)


def load(folder: Path, options: ModelOptions) -> "Embedder":
    """Load the model of a folder into this process, with its tokenizer; see `load_as`.

    Raises ModelError if the model, device or precision is not available.
    """
    from embedwell_models.embedder import Embedder  # here, because an engine reads no texts

    return load_as(Embedder, folder, options)


def load_as(
    kind: type[E],
    folder: Path,
    options: ModelOptions,
    measured: LoadMeasurements | None = None,
) -> E:
    """Load the model of a folder into this process, whose instruction set and threads it sets.

    Raises ModelError if the model, device or precision is not available.

    kind: a TokenIdEmbedder loads the tokenizer when it needs it. measured: see
    `TokenIdEmbedder.load_folder`.
    """
    library.cap_isa(options.isa)
    set_thread_count(options.threads or available_cpus())
    embedder = kind.load_folder(folder, options, measured)
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
