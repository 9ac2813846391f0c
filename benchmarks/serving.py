"""Compared servers, and their start and stop."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx
import numpy as np

from benchmarks import environments
from benchmarks.environments import OFFLINE, ROOT, Unavailable, threads
from benchmarks.peers.protocol import Floats

MODEL = "m"  # name of the model in every server
_PORT = 8765
_DRAIN = 3  # requests; the lock of the plain server lets a few overtake
_START, _STOP = 300.0, 15.0  # seconds; vLLM takes a minute to start


@dataclass(frozen=True)
class Server:
    """A compared server. environment: a file in requirements/; None for the driver's interpreter.

    program: program in the environment, or the path of another program. arguments: builds the
    arguments for a model's folder and a port. extra: further fields of each request. own_threads:
    whether the server is faster if it counts the cores itself.
    """

    name: str
    environment: str | None
    program: str
    arguments: Callable[[str, str], Sequence[str]]
    extra: Mapping[str, Any] = field(default_factory=dict)
    own_threads: bool = False

    def run(self, folder: Path, home: Path, count: int) -> AbstractContextManager[str]:
        """Run the server, see `running`."""
        return running(self, folder, home, count)


@dataclass(frozen=True)
class Elsewhere:
    """A server that is already running elsewhere. url: URL of its OpenAI-compatible route."""

    name: str
    url: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, argument: str) -> "Elsewhere":
        """Parse NAME=URL; raises ArgumentTypeError."""
        name, _, url = argument.partition("=")
        if not url.startswith("http"):
            raise argparse.ArgumentTypeError("give a name and a URL: NAME=http://…/v1/embeddings")
        return cls(name, url)

    def run(self, folder: Path, home: Path, count: int) -> AbstractContextManager[str]:
        """Yield its URL; raises Unavailable if it does not respond."""
        try:
            vectors(self.url, ["ready?"])
        except httpx.HTTPError as error:
            raise Unavailable(f"{self.url}: {error}") from None
        return nullcontext(self.url)


def ours(dtype: str) -> Server:
    """Return this project's server in a precision."""
    return Server(
        f"this, {dtype}",
        None,
        "python",
        lambda folder, port: (
            *("-m", "embedwell", "serve", "--model", folder, "--served-name", MODEL),
            *("--port", port, "--dtype", dtype),
        ),
    )


def text_embeddings_inference(program: Path) -> Server:
    """Return a `text-embeddings-router` that was built here or copied from its image."""
    return Server(
        "text-embeddings-inference",
        None,
        str(program.resolve()),
        lambda folder, port: (
            *("--model-id", folder, "--served-model-name", MODEL),
            *("--hostname", "127.0.0.1", "--port", port),
            *("--max-client-batch-size", "256"),  # the default limit is 32 texts
        ),
    )


def llama_cpp(precision: str) -> Server:
    """Return llama.cpp's server in a precision of `peers.gguf_model`."""
    return Server(
        f"llama.cpp, {precision}",
        "llama-server",
        "python",
        lambda folder, port: (
            *("-m", "benchmarks.peers.llama_server"),
            *(folder, port, MODEL, precision),
        ),
    )


PEERS = (
    Server(
        "plain FastAPI, sentence-transformers",
        "sentence-transformers",
        "python",
        lambda folder, port: ("-m", "benchmarks.peers.plain", folder, port),
    ),
    Server(
        "Infinity, torch",
        "infinity",
        "infinity_emb",
        lambda folder, port: (
            *("v2", "--model-id", folder, "--served-model-name", MODEL),
            *("--engine", "torch", "--device", "cpu", "--no-bettertransformer"),
            *("--host", "127.0.0.1", "--port", port, "--url-prefix", "/v1"),
        ),
    ),
    Server(
        "vLLM, bfloat16",  # the default, float16, is several times slower on a CPU
        "vllm",
        "python",
        lambda folder, port: (
            *("-m", "vllm.entrypoints.openai.api_server", "--model", folder),
            *("--served-model-name", MODEL, "--runner", "pooling", "--dtype", "bfloat16"),
            *("--host", "127.0.0.1", "--port", port, "--gpu-memory-utilization", "0.2"),
        ),
        extra={"truncate_prompt_tokens": -1},  # without it, the server refuses long texts
        own_threads=True,
    ),
    llama_cpp("float32"),
    llama_cpp("q8_0"),
)


REFERENCE = PEERS[0]


@contextmanager
def running(server: Server, folder: Path, home: Path, count: int) -> Iterator[str]:
    """Start a server, yield its URL when it responds, and stop it.

    count: number of threads, unless the server counts them itself. Raises Unavailable if the server
    cannot be installed or does not start.
    """
    program = _program(server, home)
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("EMBEDWELL_")
    }
    environment |= OFFLINE if server.own_threads else OFFLINE | threads(count)
    environment |= {"EMBEDWELL_THREADS": str(count), "BENCH_HOME": str(home)}
    with (home / "servers.log").open("a") as log:
        process = subprocess.Popen(
            [str(program), *server.arguments(str(folder), str(_PORT))],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,  # its children can then be stopped with it
        )
        try:
            yield _answering(process, f"http://127.0.0.1:{_PORT}/v1/embeddings", log)
        finally:
            _stop(process)


def vectors(url: str, texts: Sequence[str]) -> Floats:
    """Return the vectors in a server's response as a matrix."""
    body = {"input": list(texts), "model": MODEL}
    data = httpx.post(url, json=body, timeout=60, trust_env=False).raise_for_status().json()["data"]
    return np.array([entry["embedding"] for entry in data], dtype=np.float32)


def drain(url: str) -> None:
    """Wait until the server has answered the remaining requests of a load.

    Our server drops requests when their connections end.
    """
    for _ in range(_DRAIN):
        vectors(url, ["drained?"])


def _program(server: Server, home: Path) -> Path:
    if Path(server.program).is_absolute():
        if not shutil.which(server.program):
            raise Unavailable(f"{server.program} is not a program")
        return Path(server.program)
    name = server.environment
    python = environments.python(home, name) if name else Path(sys.executable)
    return python.with_name(server.program)


def _answering(process: "subprocess.Popen[bytes]", url: str, log: IO[str]) -> str:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Unavailable(f"it ended with {process.returncode}; see {log.name}")
        try:
            vectors(url, ["ready?"])
        except httpx.HTTPError:
            time.sleep(0.5)
        else:
            return url
    raise Unavailable(f"no answer after {_START:.0f} seconds; see {log.name}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_STOP)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
