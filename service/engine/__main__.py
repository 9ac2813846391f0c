"""The engine process: `python -m service.engine`, started by the server."""

import logging
import signal
import socket
import sys
from dataclasses import asdict

import orjson
import torch

from models import isa
from models.embedder import Embedder
from models.errors import ModelError
from service.engine.budget import Budget, choose
from service.engine.cpus import allotted
from service.engine.lines import Lines
from service.engine.load import load
from service.engine.loop import Loop
from service.engine.messages import Description, EngineSpec
from service.engine.shares import Shares
from service.heap import freeze
from service.log import configure
from service.supervisor import REFUSED

log = logging.getLogger("service.engine")

# Seconds; an answer's way to its client and that of the next request take half of it. Where there
# is one processor, those who are waited for need it.
_LINGER = 0.001
_PASSING = (MemoryError, OSError, torch.OutOfMemoryError, torch.AcceleratorError)


def main() -> None:
    """Load the model, warm it, then serve jobs until the server goes away."""
    spec = EngineSpec(**orjson.loads(sys.stdin.buffer.readline()))
    configure(spec.log_level)
    # Signals may reach the whole group: it is the server that decides when its engine stops.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    embedder, budget = ready(spec)
    greeting = ["description", describe(embedder, budget)], b""
    lines = Lines(socket.socket(fileno=spec.exchange), sys.stdin.fileno(), greeting)
    freeze()
    shares = Shares(budget.tokens, embedder.lanes, embedder.ahead)
    Loop(lines, embedder, shares, budget.rate, _LINGER * (allotted() > 1)).run()


def ready(spec: EngineSpec) -> tuple[Embedder, Budget]:
    """The model, warm, and how much of it a pass may have; exits where no other start would help.

    Raises what may pass: memory, files or a device that cannot be had at the moment.
    """
    try:
        embedder = load(spec.folder, spec.device, spec.dtype, spec.threads)
        for trial in embedder.trials[1:]:
            log.info(
                "%s: cosine to float32 at least %.5f, %.1f times as fast",
                *(trial.dtype, trial.cosine, trial.speedup),
            )
        embedder.warm()
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
        kernels=isa.best(embedder.dtype) if embedder.device.type == "cpu" else None,
    )


if __name__ == "__main__":
    main()
