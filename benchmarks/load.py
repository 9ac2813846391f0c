"""Load on a server: requests of one kind from a number of clients, sent and timed by wrk."""

import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving import MODEL
from benchmarks.workloads import WORDS
from deploy.loadtest.corpus import Corpus

_SCRIPT = Path(__file__).parent / "request.lua"
_POOL = {"short": 8192, "passage": 2048}  # different texts, so that texts are hardly ever repeated
_TIMEOUT = 60  # seconds until wrk gives up on a request
_ENDLESS = 600  # seconds: until it is told to stop
_AHEAD = 1.0  # seconds that a load beside another begins before it


@dataclass(frozen=True)
class Load:
    """Clients that each send the next request after the response to the previous one.

    beside: concurrent loads.
    """

    kind: str
    clients: int
    texts: int = 1
    beside: tuple["Load", ...] = ()

    @property
    def name(self) -> str:
        what = self.kind if self.texts == 1 else f"{self.texts} {self.kind}"
        own = f"{what}, {self.clients} client{'s' * (self.clients > 1)}"
        return " beside ".join([own, *(other.name for other in self.beside)])


LOADS = (
    *(Load("short", clients) for clients in (1, 8, 32, 128)),
    *(Load("passage", clients) for clients in (1, 32)),
    Load("short", 4, texts=32),
    Load("short", 1, beside=(Load("short", 8, texts=32),)),
)


def require() -> None:
    """Exit with a hint if wrk is not installed."""
    if not shutil.which("wrk"):
        raise SystemExit("wrk sends the load and is not installed: apt-get install wrk")


def texts(kind: str, count: int, seed: int) -> list[str]:
    """Return texts of a class."""
    corpus = Corpus(random.Random(seed))
    return [corpus.cut(*WORDS[kind]) for _ in range(count)]


def write(folder: Path, extra: Mapping[str, Any], seed: int) -> dict[Load, Path]:
    """Write a file with a request body in each line for each load and its concurrent loads."""
    pools = {kind: texts(kind, count, seed) for kind, count in _POOL.items()}
    files = {}
    for load in [*LOADS, *(other for one in LOADS for other in one.beside)]:
        pool = pools[load.kind]
        inputs = [pool[i : i + load.texts] for i in range(0, len(pool), load.texts)]
        lines = (json.dumps({"input": one, "model": MODEL, **extra}) for one in inputs)
        files[load] = folder / f"{load.kind}-{load.clients}-{load.texts}.txt"
        files[load].write_text("\n".join(lines) + "\n")
    return files


def send(
    url: str,
    load: Load,
    bodies: Mapping[Load, Path],
    seconds: int,
    accept: str = "application/json",
) -> dict[str, Any]:
    """Return wrk's requests per second, p50 and p99 in seconds, and errors."""
    others = [_start(url, other, bodies[other], _ENDLESS, accept) for other in load.beside]
    try:
        time.sleep(_AHEAD * len(others))
        result = _result(_start(url, load, bodies[load], seconds, accept))
    finally:
        for other in others:
            other.send_signal(signal.SIGINT)
    return result | {"beside": [_result(other) for other in others]}


def _start(
    url: str, load: Load, bodies: Path, seconds: int, accept: str
) -> "subprocess.Popen[str]":
    command = ["wrk", "-t1", f"-c{load.clients}", f"-d{seconds}s", f"--timeout={_TIMEOUT}s"]
    arguments = [f"--script={_SCRIPT}", url, "--", str(bodies), accept]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)


def _result(wrk: "subprocess.Popen[str]") -> dict[str, Any]:
    output, _ = wrk.communicate()
    if wrk.returncode:
        raise subprocess.CalledProcessError(wrk.returncode, wrk.args)
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    answered = result["requests"] - result["refused"]
    return result | {"requests_per_second": answered / result["seconds"]}
