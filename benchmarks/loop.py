"""What the engine's loop and an HTTP process cost a text: CPU time without a model's.

A process sends jobs over a socket to the loop as an HTTP process does. It sends as many new jobs as
it receives results, so that two full batches are always waiting or running. The HTTP process gets
lists of texts from a client, and vectors from a loop whose model computes nothing.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np
import psutil

from benchmarks.script import table
from deploy.loadtest.corpus import Corpus
from embedwell.engine.wire.engine_sockets import (
    MessageReader,
    handoff_pair,
    pack,
    request_connection,
)
from embedwell.engine.wire.messages import EngineDescription, Job, TokenIds, pack_jobs
from embedwell.engine.worker.batch_sizing import BatchSizing
from embedwell.engine.worker.loop import Loop
from embedwell.engine.worker.receiver import Connections
from embedwell.gc_tuning import settle_heap
from embedwell.inherited import InheritedServer
from embedwell.launch.bootstrap import open_listeners, open_model_contexts
from embedwell.settings.settings import Settings
from embedwell_models.encoder.batch import Batch, FlatRows
from embedwell_models.hub.sources import DEFAULT, resolve
from embedwell_models.outputs.names import DENSE
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels

_BATCH_TOKENS = 2048
_RATE = 1e9  # tokens per second, at which every batch may be full
_CHUNK = 1 << 20  # bytes that a client reads at once
_START = 120  # seconds until the HTTP process answers


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


_DESCRIPTION = asdict(
    EngineDescription(
        dim=384,
        max_length=256,
        num_layers=0,
        max_positions=512,
        vocab_size=1 << 20,
        pooling=["mean"],
        normalize=True,
        family="none",
        device="cpu",
        dtype="float32",
        trials=[],
        threads=1,
        max_batch_tokens=_BATCH_TOKENS,
        fingerprint="",
        kernels=None,
    )
)


@dataclass(frozen=True)
class Lists:
    """Requests to an HTTP process. words: of each text. first: whether their words are new."""

    texts_per_request: int
    words: int
    first: bool


def measure_http(
    folder: Path, texts: int, texts_per_request: int, rounds: int
) -> list[tuple[Lists, float]]:
    """Return the least CPU microseconds that a text costs an HTTP process, by the kind of text."""
    with ExitStack() as stack:
        settings = Settings(model=str(folder), host="127.0.0.1", port=0, workers=1)
        listeners = open_listeners(settings, stack)
        settings = listeners.settings
        contexts, [engine_fd] = open_model_contexts(settings, [(settings, folder)], stack)
        fds = [[each.fileno() for each in group] for group in listeners.groups]
        server = InheritedServer(settings, contexts, port=listeners.port, listener_fds=fds)
        command = [sys.executable, "-m", "embedwell.launch.http_worker"]
        process = stack.enter_context(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=server.pass_fds(0),
            )
        )
        stack.callback(process.wait)  # before its stdin ends, by which it would notice that we do
        stack.callback(process.terminate)
        assert process.stdin is not None
        process.stdin.write(server.worker_config(0) + b"\n")
        process.stdin.flush()
        multiprocess = multiprocessing.get_context("spawn")
        running, alive = map(stack.enter_context, multiprocess.Pipe(duplex=False))
        costs, sender = multiprocess.Pipe(duplex=False)
        arguments = (listeners.port, process.pid, texts, texts_per_request, rounds, sender, alive)
        client = multiprocess.Process(target=send_lists, args=arguments, daemon=True)
        client.start()
        alive.close()
        accepting = stack.enter_context(socket.socket(fileno=os.dup(engine_fd)))
        connections = Connections(accepting, running.fileno(), (["description", _DESCRIPTION], b""))
        settle_heap()
        Loop(connections, InstantModel(384), BatchSizing(_BATCH_TOKENS), _RATE).run()
        connections.close()
        measured: list[tuple[Lists, float]] = costs.recv()
        client.join()
    return measured


def send_lists(  # noqa: PLR0913, PLR0917 - of another process
    port: int, pid: int, texts: int, size: int, rounds: int, costs: Any, alive: Any
) -> None:
    """Send lists of texts to an HTTP process, and the CPU time that they cost it to `costs`."""
    http, process = _connected(port), psutil.Process(pid)
    corpus, measured = Corpus(Random(0)), list[tuple[Lists, float]]()
    for words in (10, 62):
        inputs = [corpus.cut(words, words) for _ in range(texts)]
        first, again = Lists(size, words, first=True), Lists(size, words, first=False)
        for lists in (first, *[again] * rounds):
            start = sum(process.cpu_times()[:2])
            for index in range(0, texts, size):
                _post(http, inputs[index : index + size])
            seconds = sum(process.cpu_times()[:2]) - start
            measured.append((lists, seconds / texts * 1e6))
    costs.send(measured)
    alive.close()


def _connected(port: int) -> HTTPConnection:
    end = time.monotonic() + _START
    while True:
        http = HTTPConnection("127.0.0.1", port, timeout=_START)
        try:
            _post(http, ["ready?"])
        except (OSError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return http


def _post(http: HTTPConnection, inputs: Sequence[str]) -> None:
    body = json.dumps({"input": inputs, "encoding_format": "base64"})
    http.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
    response = http.getresponse()
    response.read()
    assert response.status == 200, response.status


def http_report(costs: Sequence[tuple[Lists, float]]) -> str:
    """Return the numbers as a text table: the least CPU time of each kind of text."""
    rows = []
    for lists in dict.fromkeys(lists for lists, _ in costs):
        cpu = min(cost for each, cost in costs if each == lists)
        state = "first" if lists.first else "again"
        size = f"{lists.texts_per_request} × {lists.words} words, {state}"
        rows.append([size, f"{cpu:.1f}", f"{1e6 / max(cpu, 1e-3):,.0f}"])
    head = ["texts in a request", "CPU, µs a text", "texts/s of CPU time"]
    return table("an HTTP process, without a model", head, rows)


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
@click.option("--model", default=DEFAULT, help="A folder or a bundled name, for its tokenizer.")
@click.option("--http", default=8192, help="Texts of each kind to the HTTP process; 0 for none.")
@click.option("--lists", default="16,32", help="Texts in a request to the HTTP process.")
def main(texts: int, jobs: str, rounds: int, model: str, http: int, lists: str) -> None:  # noqa: PLR0913, PLR0917 - options
    """Print what the engine's loop and an HTTP process cost a text."""
    sizes = [int(size) for size in jobs.split(",")] * rounds
    if sizes and texts:
        click.echo(report([measure(Load(texts, size)) for size in sizes]))
    if http:
        folder, counts = resolve(model), map(int, lists.split(","))
        costs = [cost for count in counts for cost in measure_http(folder, http, count, rounds)]
        click.echo(http_report(costs))


if __name__ == "__main__":
    main()
