"""What the engine's loop costs a text: CPU time with a model that computes nothing.

Another process sends jobs over a socket as an HTTP process does. It sends as many new jobs as it
receives results, so that two full batches are always waiting or running.
"""

import multiprocessing
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from benchmarks.script import table
from embedwell.engine.wire.engine_sockets import handoff_pair, request_connection
from embedwell.engine.wire.framing import MessageReader, pack
from embedwell.engine.wire.messages import Job, TokenIds, pack_jobs
from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.receiver import Connections
from embedwell.gc_tuning import settle_heap
from embedwell_models.encoder.batch import Batch, FlatRows
from embedwell_models.images.preprocessing import Pixels
from embedwell_models.output_names import DENSE
from embedwell_models.outputs import TextOutputs
from embedwell_models.vectors import Floats

_BATCH_TOKENS = 2048
_RATE = 1e9  # tokens per second, at which every batch may be full
_CHUNK = 1 << 20  # bytes that a client reads at once


class InstantModel:
    """Computes zeros; only dense vectors are offered."""

    def __init__(self, dim: int) -> None:
        self._dim = dim

    def encode(
        self,
        ids: Sequence[TokenIds],
        *,
        normalized: bool | None = None,
        prompt_token_counts: Sequence[int] = (),
    ) -> Floats:
        batch = Batch.of(ids, prompt_token_counts)
        return np.zeros((len(batch.lengths), self._dim), dtype=np.float32)

    def hidden(self, ids: Sequence[TokenIds], layer: int | str | None = None) -> list[Floats]:
        raise NotImplementedError

    def outputs(
        self,
        ids: Sequence[TokenIds],
        names: Sequence[str],
        *,
        prompt_token_counts: Sequence[int] = (),
    ) -> list[TextOutputs]:
        raise NotImplementedError

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        raise NotImplementedError

    def encode_page(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        raise NotImplementedError

    def encode_with_images(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        raise NotImplementedError


@dataclass(frozen=True)
class Load:
    """Texts to compute. tokens: of a text. dim: of a vector."""

    texts: int
    texts_per_job: int
    tokens: int = 16
    dim: int = 384


@dataclass(frozen=True)
class Cost:
    """Seconds of a load: those that passed, and the CPU time of the engine's thread."""

    load: Load
    seconds: float
    cpu_seconds: float

    @property
    def microseconds(self) -> float:
        """CPU time of a text."""
        return self.cpu_seconds / self.load.texts * 1e6


def measure(load: Load) -> Cost:
    """Compute a load over a socket from another process."""
    requesting, accepting = handoff_pair()
    context = multiprocessing.get_context("spawn")
    running, alive = context.Pipe(duplex=False)  # ends when the client does
    with requesting, accepting, running:
        ours, _ = request_connection(requesting.fileno())
        with ours, alive:
            client = context.Process(target=send_load, args=(ours, load, alive), daemon=True)
            client.start()
        greeting = ["description", {}], b""
        connections = Connections(accepting, running.fileno(), greeting)
        loop = Loop(connections, InstantModel(load.dim), BatchSizing(_BATCH_TOKENS), _RATE)
        settle_heap()  # as engines do
        loop.run_once()  # the first job, which the client sends when it has started
        start, cpu_start = time.perf_counter(), time.thread_time()
        loop.run()
        cost = Cost(load, time.perf_counter() - start, time.thread_time() - cpu_start)
        connections.close()
        client.join()
    return cost


def send_load(sock: socket.socket, load: Load, alive: Any) -> None:
    """Send jobs, and as many new ones as there are results, until all texts are computed."""
    rows = [np.arange(1, load.tokens + 1, dtype=np.int32)] * load.texts_per_job
    job = Job(DENSE, FlatRows.of(rows))
    reader, number, jobs = MessageReader(), 0, -(-load.texts // load.texts_per_job)
    window = max(2, 2 * _BATCH_TOKENS // (load.tokens * load.texts_per_job))
    unanswered, room = 0, min(window, jobs)
    while room or unanswered:
        if room:
            numbered = [(number + index, job) for index in range(room)]
            sock.sendall(pack(*pack_jobs(numbered)))
            number, unanswered = number + room, unanswered + room
        answered = 0
        for (kind, results), _ in reader.feed(sock.recv(_CHUNK)):
            answered += len(results) * (kind == "results")
        unanswered -= answered
        room = min(answered, jobs - number)
    alive.close()


def report(costs: Sequence[Cost]) -> str:
    """Return the numbers as a text table: the least CPU time of each size of a job."""
    rows = []
    for size in dict.fromkeys(cost.load.texts_per_job for cost in costs):
        own = [cost for cost in costs if cost.load.texts_per_job == size]
        cpu = min(cost.microseconds for cost in own)
        fastest = max(cost.load.texts / cost.seconds for cost in own)
        rows.append([str(size), f"{cpu:.2f}", f"{1e6 / cpu:,.0f}", f"{fastest:,.0f}"])
    head = ["texts in a job", "CPU, µs a text", "texts/s of CPU time", "texts/s"]
    return table("the engine's loop, without a model", head, rows)


@click.command()
@click.option("--texts", default=100_000, help="Texts of a measurement.")
@click.option("--jobs", default="1,32,128", help="Texts in a job.")
@click.option("--rounds", default=3, help="How often each size has its turn.")
def main(texts: int, jobs: str, rounds: int) -> None:
    """Print what the engine's loop costs a text, by the texts in a job."""
    sizes = [int(size) for size in jobs.split(",")] * rounds
    click.echo(report([measure(Load(texts, size)) for size in sizes]))


if __name__ == "__main__":
    main()
