"""An engine: loads the model, and computes until the server is no more."""

import logging
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict

import torch

from models.embedder import Embedder
from models.errors import ModelError
from service.engine.protocol.messages import Description
from service.engine.protocol.progress import Progress
from service.engine.protocol.spec import Decisions, EngineSpec
from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.budget import Budget, choose
from service.engine.worker.connections import Connections
from service.engine.worker.cpus import allotted
from service.engine.worker.load import load
from service.engine.worker.loop import Loop
from service.process.gc_tuning import freeze
from service.process.shared_counters import SharedCounters
from service.process.supervisor import REFUSED

log = logging.getLogger("service.engine")

# Seconds; an answer's way to its client and that of the next request take half of it. Where there
# is one processor, those who are waited for need it.
_LINGER = 0.001
_PASSING = (MemoryError, OSError, torch.OutOfMemoryError, torch.AcceleratorError)


def run(spec: EngineSpec, on_ready: Callable[[Decisions], None]) -> None:
    """Load the model, warm it, then serve jobs until the server goes away."""
    embedder, budget = ready(spec)
    greeting = ["description", describe(embedder, budget)], b""
    connections = Connections(socket.socket(fileno=spec.handoff), sys.stdin.fileno(), greeting)
    on_ready(_decisions(embedder, budget))
    freeze()
    sizing = BatchSizing(budget.tokens, embedder.lanes, embedder.ahead)
    counters = SharedCounters.attach(spec.counters_fd, spec.counters_rows, spec.counters_rows - 1)
    linger = _LINGER * (allotted() > 1)
    progress = Progress(counters)
    Loop(connections, embedder, sizing, budget.rate, linger=linger, progress=progress).run()


def ready(spec: EngineSpec) -> tuple[Embedder, Budget]:
    """The model, warm, and how much of it a pass may have; exits where no other start would help.

    Raises what may pass: memory, files or a device that cannot be had at the moment.
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
        return embedder, choose(embedder, spec.max_batch_tokens)
    except ModelError as error:
        log.error("%s", error)
    except _PASSING:
        raise
    except Exception:
        # The same files give the same error. A server that starts its engine without end looks
        # alive; one that ends is seen, and whoever manages it may still start it again.
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
    """What the HTTP process has to know of the model."""
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
