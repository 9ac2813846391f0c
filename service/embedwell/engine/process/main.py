"""The engine process: load the model, then compute jobs until the server shuts down."""

import logging
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict

import torch

from embedwell.engine.process.batch_limit import BatchLimit, choose_batch_limit
from embedwell.engine.process.batch_sizing import BatchSizing
from embedwell.engine.process.connections import Connections
from embedwell.engine.process.cpus import available_cpus
from embedwell.engine.process.load import load
from embedwell.engine.process.loop import Loop
from embedwell.engine.protocol.messages import EngineDescription
from embedwell.engine.protocol.progress import Progress
from embedwell.engine.protocol.spec import EngineSpec, StartupChoices
from embedwell.process.gc_tuning import settle_heap
from embedwell.process.shared_counters import SharedCounters
from embedwell.process.supervisor import EXIT_PERMANENT_FAILURE
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError

log = logging.getLogger("embedwell.engine")

# Twice the usual time between a result and the client's next request. Not used with a single
# processor, which the other processes need.
_LINGER_SECONDS = 0.001
_TRANSIENT_ERRORS = (MemoryError, OSError, torch.OutOfMemoryError, torch.AcceleratorError)


def run(spec: EngineSpec, on_ready: Callable[[StartupChoices], None]) -> None:
    """Load and warm the model, then serve jobs until the server shuts down."""
    embedder, batch_limit = load_and_measure(spec)
    greeting = ["description", describe(embedder, batch_limit)], b""
    connections = Connections(socket.socket(fileno=spec.accept_fd), sys.stdin.fileno(), greeting)
    on_ready(_startup_choices(embedder, batch_limit))
    settle_heap()
    sizing = BatchSizing(
        batch_limit.tokens, embedder.max_concurrent_batches, embedder.prefetch_depth
    )
    counters = SharedCounters.attach(spec.counters_fd, spec.counters_rows, spec.counters_rows - 1)
    linger = _LINGER_SECONDS * (available_cpus() > 1)
    progress = Progress(counters)
    Loop(connections, embedder, sizing, batch_limit.rate, linger=linger, progress=progress).run()


def load_and_measure(spec: EngineSpec) -> tuple[Embedder, BatchLimit]:
    """Load and warm the model, and choose the batch limit.

    Raises errors that may be temporary (memory, files or device are not available); exits on
    permanent ones.
    """
    try:
        embedder = load(spec.folder, spec, spec.startup_choices)
        embedder.warm()
        if spec.startup_choices:
            return embedder, BatchLimit(
                spec.startup_choices.max_batch_tokens, spec.startup_choices.rate
            )
        for trial in embedder.trials[1:]:
            log.info(
                "%s: cosine to float32 at least %.5f, %.1f times as fast",
                *(trial.dtype, trial.cosine, trial.speedup),
            )
        return embedder, choose_batch_limit(embedder, spec.max_batch_tokens)
    except ModelError as error:
        log.error("%s", error)
    except _TRANSIENT_ERRORS:
        raise
    except Exception:
        # The same files give the same error: exit, so that the process manager sees the failure,
        # instead of restarting the engine forever.
        log.exception("the model cannot be loaded")
    sys.exit(EXIT_PERMANENT_FAILURE)


def _startup_choices(embedder: Embedder, batch_limit: BatchLimit) -> StartupChoices:
    return StartupChoices(
        device=str(embedder.device),
        dtype=embedder.dtype,
        trials=[asdict(trial) for trial in embedder.trials],
        max_batch_tokens=batch_limit.tokens,
        rate=batch_limit.rate,
    )


def describe(embedder: Embedder, batch_limit: BatchLimit) -> EngineDescription:
    """Describe the model to the HTTP process."""
    return EngineDescription(
        dim=embedder.dim,
        max_length=embedder.max_length,
        num_layers=embedder.config.num_layers,
        max_positions=embedder.config.max_positions,
        vocab_size=embedder.config.vocab_size,
        pooling=list(embedder.sentence.pooling),
        normalize=embedder.sentence.normalize,
        family=embedder.config.family,
        device=str(embedder.device),
        dtype=embedder.dtype,
        trials=[asdict(trial) for trial in embedder.trials],
        threads=torch.get_num_threads(),
        max_batch_tokens=batch_limit.tokens,
        fingerprint=embedder.fingerprint,
        kernels=embedder.isa,
        labels=list(embedder.classifier.labels) if embedder.classifier else None,
        outputs=embedder.output_names,
        image_dtype=embedder.images.dtype if embedder.images else None,
    )
