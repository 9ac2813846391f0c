"""Start of an engine: load the model, and build the loop that computes jobs."""

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from embedwell import __version__
from embedwell.engine.wire.engine_state import EngineProgress, SharedCounters
from embedwell.engine.wire.messages import EngineDescription
from embedwell.engine.wire.spec import EngineSpec, StartupChoices
from embedwell.engine.worker.batch_sizing import BatchLimit, BatchSizing, choose_batch_limit
from embedwell.engine.worker.load import load_as
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.receiver import Connections
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import QUANTIZED
from embedwell_models.encoder.cpus import available_cpus
from embedwell_models.encoder.device_errors import is_device_lost, is_out_of_memory
from embedwell_models.encoder.threads import process_thread_count
from embedwell_models.errors import DeviceUnavailableError, ModelError
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.precision.measurement_cache import (
    LoadMeasurements,
    MeasurementCache,
    machine_and_files,
)
from embedwell_models.precision.trials import MIN_COSINE, MIN_MEDIAN_COSINE, Trial

log = logging.getLogger("embedwell.engine")

# Twice the usual time between a result and the client's next request. Not used with a single
# processor, which the other processes need.
_LINGER_SECONDS = 0.001

_REFUSED = f"; auto takes {MIN_COSINE} (median {MIN_MEDIAN_COSINE}) or more"


class StartupCache(MeasurementCache):
    """Choices of an engine, which depend on the model, its settings and the machine."""

    def __init__(self, spec: EngineSpec) -> None:
        """spec: start parameters; without a startup_cache, nothing is kept."""
        folder = Path(spec.startup_cache) if spec.startup_cache else None
        super().__init__(folder, _conditions(spec))

    def read(self) -> StartupChoices | None:
        """Return the choices of an earlier start; None if there are none."""
        try:
            fields = self.read_fields()
            return StartupChoices(**fields) if fields else None
        except TypeError:  # of another version's fields
            return None

    def write(self, choices: StartupChoices) -> None:
        """Keep the choices of this start."""
        self.write_fields(asdict(choices))


def _conditions(spec: EngineSpec) -> Iterator[str]:
    threads = spec.options.threads or available_cpus()
    yield from (__version__, repr(replace(spec.options, threads=threads)))
    yield from machine_and_files(Path(spec.folder), spec.options.device)


def is_transient(error: BaseException) -> bool:
    """Whether the next engine may not have an error: memory, files or the device are lacking."""
    lacks = isinstance(error, OSError | DeviceUnavailableError)
    return lacks or is_out_of_memory(error) or is_device_lost(error)


def start(spec: EngineSpec) -> tuple[Loop, StartupChoices]:
    """Load and warm the model; return the loop that serves jobs until the server shuts down.

    Raises ModelError, and errors that are transient, see is_transient.
    """
    if spec.cpus:  # now, because memory is allocated on the node of the processor that writes first
        os.sched_setaffinity(0, spec.cpus)
    embedder, choices = load_and_measure(spec)
    greeting = ["description", describe(embedder, choices)], b""
    connections = Connections(socket.socket(fileno=spec.accept_fd), sys.stdin.fileno(), greeting)
    sizing = BatchSizing(
        choices.max_batch_tokens, embedder.max_concurrent_batches, embedder.prefetch_depth
    )
    counters = SharedCounters.attach(spec.counters_fd, spec.counters_rows, spec.counters_rows - 1)
    linger = _LINGER_SECONDS * (available_cpus() > 1)
    progress = EngineProgress(counters, os.getpid())
    loop = Loop(connections, embedder, sizing, choices.rate, linger=linger, progress=progress)
    return loop, choices


def load_and_measure(spec: EngineSpec) -> tuple[TokenIdEmbedder, StartupChoices]:
    """Load and warm the model; choose the batch limit, or reuse the choices of another start."""
    cache = StartupCache(spec)
    previous = spec.startup_choices or cache.read()
    embedder = _load_with_choices(spec, previous, cache) if previous else None
    if embedder is None:
        previous, embedder = None, _load(spec, None, cache)
    embedder.warm()
    if previous:
        if not spec.startup_choices:
            _log_reuse(spec, previous)
        return embedder, previous
    for trial in embedder.trials[1:]:
        speed = f", {trial.speedup:.1f} times as fast" if trial.speedup else ""
        log.info(
            "%s in %s: cosine to float32 at least %.5f (median %.5f)%s%s",
            *(spec.model, trial.dtype, trial.cosine, trial.median_cosine, speed),
            "" if trial.dtype == embedder.dtype or trial.is_accurate else _REFUSED,
        )
    limit = choose_batch_limit(embedder, spec.options.max_batch_tokens)
    library.release_scratch()  # of the largest batch, which may never come
    choices = _startup_choices(embedder, limit)
    if not (embedder.replaces_gpu or limit.reduced):  # another start may find more free memory
        cache.write(choices)
    return embedder, choices


def _load_with_choices(
    spec: EngineSpec, previous: StartupChoices, cache: StartupCache
) -> TokenIdEmbedder | None:
    """Load the model with earlier choices; None if auto should choose another device."""
    try:
        return _load(spec, previous, cache)
    except ModelError:
        # Another engine of this server has to compute the same vectors.
        if spec.startup_choices or spec.options.device != "auto":
            raise
    return None


def _load(
    spec: EngineSpec, previous: StartupChoices | None, cache: StartupCache
) -> TokenIdEmbedder:
    folder, options, measured, magnitudes = Path(spec.folder), spec.options, None, None
    if previous:
        trials = [Trial(**trial) for trial in previous.trials]
        magnitudes = cache.read_magnitudes() if previous.dtype in QUANTIZED else None
        measured = LoadMeasurements(
            previous.dtype, trials, previous.fingerprint, magnitudes, previous.image_dtype
        )
        options = replace(options, device=previous.device)
    embedder = load_as(TokenIdEmbedder, folder, options, measured)
    if embedder.input_magnitudes is not None and magnitudes is None:
        cache.write_magnitudes(embedder.input_magnitudes)
    return embedder


def _startup_choices(embedder: TokenIdEmbedder, batch_limit: BatchLimit) -> StartupChoices:
    return StartupChoices(
        device=str(embedder.device),
        dtype=embedder.dtype,
        trials=[asdict(trial) for trial in embedder.trials],
        max_batch_tokens=batch_limit.tokens,
        rate=batch_limit.rate,
        fingerprint=embedder.fingerprint,
        measured_at=int(time.time()),
        image_dtype=embedder.image_dtype,
    )


def _log_reuse(spec: EngineSpec, choices: StartupChoices) -> None:
    day = time.strftime("%Y-%m-%d", time.localtime(choices.measured_at))
    log.info(
        "%s is loaded in %s, as measured on %s (EMBEDWELL_STARTUP_CACHE=false measures again)",
        *(spec.model, choices.dtype, day),
    )


def describe(embedder: TokenIdEmbedder, choices: StartupChoices) -> EngineDescription:
    """Describe the model to the HTTP process."""
    return EngineDescription(
        dim=embedder.dim,
        max_length=embedder.max_length,
        num_layers=embedder.config.num_layers,
        max_positions=embedder.config.max_positions,
        vocab_size=embedder.config.vocab_size,
        pooling=list(embedder.recipe.pooling),
        normalize=embedder.recipe.normalize,
        family=embedder.config.family,
        device=str(embedder.device),
        dtype=embedder.dtype,
        trials=[asdict(trial) for trial in embedder.trials],
        threads=process_thread_count(),
        max_batch_tokens=choices.max_batch_tokens,
        fingerprint=embedder.fingerprint,
        kernels=embedder.isa,
        labels=list(embedder.classifier.labels) if embedder.classifier else None,
        outputs=embedder.output_names,
        image_dtype=embedder.image_dtype,
        graphs=embedder.graphs.as_json(),
        measured_at=choices.measured_at,
        torch=embedder.why_torch,
    )
