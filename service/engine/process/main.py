"""The engine process: load the model, then compute jobs until the server shuts down."""

import logging
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict

import torch

from models.embedder import Embedder
from models.errors import ModelError
from service.engine.process.batch_sizing import BatchSizing
from service.engine.process.budget import Budget, choose_budget
from service.engine.process.connections import Connections
from service.engine.process.cpus import available_cpus
from service.engine.process.load import load
from service.engine.process.loop import Loop
from service.engine.protocol.messages import Description
from service.engine.protocol.progress import Progress
from service.engine.protocol.spec import Decisions, EngineSpec
from service.process.gc_tuning import freeze
from service.process.shared_counters import SharedCounters
from service.process.supervisor import REFUSED

log = logging.getLogger("service.engine")

# Twice the usual time between a result and the client's next request. Not used on a single
# processor, which the other processes need.
_LINGER_SECONDS = 0.001
_TRANSIENT_ERRORS = (MemoryError, OSError, torch.OutOfMemoryError, torch.AcceleratorError)


def run(spec: EngineSpec, on_ready: Callable[[Decisions], None]) -> None:
    """Load and warm the model, then serve jobs until the server shuts down."""
    embedder, budget = load_and_measure(spec)
    greeting = ["description", describe(embedder, budget)], b""
    connections = Connections(socket.socket(fileno=spec.handoff_fd), sys.stdin.fileno(), greeting)
    on_ready(_decisions(embedder, budget))
    freeze()
    sizing = BatchSizing(budget.tokens, embedder.max_concurrent_batches, embedder.prefetch_depth)
    counters = SharedCounters.attach(spec.counters_fd, spec.counters_rows, spec.counters_rows - 1)
    linger = _LINGER_SECONDS * (available_cpus() > 1)
    progress = Progress(counters)
    Loop(connections, embedder, sizing, budget.rate, linger=linger, progress=progress).run()


def load_and_measure(spec: EngineSpec) -> tuple[Embedder, Budget]:
    """Load and warm the model, and choose the batch budget.

    Raises errors that may pass (no memory, files or device at the moment); exits on permanent ones.
    """
    try:
        embedder = load(spec.folder, spec, spec.decisions)
        embedder.warm()
        if spec.decisions:
            return embedder, Budget(spec.decisions.max_batch_tokens, spec.decisions.rate)
        for trial in embedder.trials[1:]:
            log.info(
                "%s: cosine to float32 at least %.5f, %.1f times as fast",
                *(trial.dtype, trial.cosine, trial.speedup),
            )
        return embedder, choose_budget(embedder, spec.max_batch_tokens)
    except ModelError as error:
        log.error("%s", error)
    except _TRANSIENT_ERRORS:
        raise
    except Exception:
        # The same files give the same error: exit, so that the process manager sees the failure,
        # instead of restarting the engine forever.
        log.exception("the model cannot be loaded")
    sys.exit(REFUSED)


def _decisions(embedder: Embedder, budget: Budget) -> Decisions:
    return Decisions(
        device=str(embedder.device),
        dtype=embedder.dtype,
        trials=[asdict(trial) for trial in embedder.trials],
        max_batch_tokens=budget.tokens,
        rate=budget.rate,
    )


def describe(embedder: Embedder, budget: Budget) -> Description:
    """Describe the model to the HTTP process."""
    return Description(
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
        max_batch_tokens=budget.tokens,
        fingerprint=embedder.fingerprint,
        kernels=embedder.isa,
    )
