"""Measure the server on the GPU under load, by the number of HTTP processes.

python -m deploy.gpu.server [SECONDS]

The results are in server.jsonl. The load comes from processes of http_load.py. One run of
deploy.loadtest adds the server's own times of tokenizing, waiting and computing.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from deploy.gpu.random_models import model_folder
from deploy.gpu.results import OUT, append_line

RESULTS = "server.jsonl"
MODEL = os.environ.get("KIT_SERVER", "minilm")
"""The served model, one of random_models.NAMES with dense vectors."""

QUICK = len(os.sched_getaffinity(0)) < 8
"""Whether there are too few cores for clients besides a server on a GPU."""

SECONDS = 1.0 if QUICK else 4.0
_LOAD_TEST_SECONDS = 5
_START_SECONDS = 15
_LISTENS = re.compile(r'listens on (http://[^\s"\\]+)')


class Load(NamedTuple):
    """Clients that each send requests of so many texts, and the format of the vectors."""

    clients: int
    kind: str
    texts: int
    format: str


LOADS: Mapping[int, Sequence[Load]] = {  # by HTTP processes
    4: [
        Load(1, "short", 1, "base64"),
        Load(64, "short", 1, "base64"),
        Load(512, "short", 1, "base64"),
        Load(64, "short", 32, "base64"),
        Load(64, "passage", 16, "base64"),
        Load(64, "long", 16, "base64"),
        Load(512, "short", 1, "json"),
        Load(512, "short", 1, "binary"),
    ],
    1: [Load(64, "short", 1, "base64"), Load(512, "short", 1, "base64")],
    8: [Load(512, "short", 1, "base64"), Load(64, "passage", 16, "binary")],
}
QUICK_LOADS: Mapping[int, Sequence[Load]] = {
    1: [Load(2, "short", 1, "base64"), Load(2, "short", 4, "binary")]
}


class ServerFailed(Exception):
    """The server ended, or was not ready in time."""


@contextmanager
def server(workers: int, log: Path, end: float) -> Iterator[str]:
    """Start a server on a free port and wait until it is ready; yield its address."""
    settings = {"EMBEDWELL_WORKERS": str(workers), "EMBEDWELL_MAX_WAIT": "30"}
    folder = str(model_folder(MODEL))
    command = [sys.executable, "-m", "embedwell", "serve", folder, "--port", "0"]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=os.environ | settings, start_new_session=True
        )
    try:
        yield wait_until_ready(process, log, end)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def wait_until_ready(process: "subprocess.Popen[bytes]", log: Path, end: float) -> str:
    """Return the address of a server that is ready. Raises ServerFailed."""
    while process.poll() is None and time.monotonic() < end:
        address = _LISTENS.search(log.read_text(encoding="utf-8"))
        if address and is_ready(address[1]):
            return address[1]
        time.sleep(0.1)
    lines = log.read_text(encoding="utf-8").splitlines()[-3:]
    raise ServerFailed(f"the server did not start: {' '.join(lines)[-500:]}")


def is_ready(url: str) -> bool:
    """Return whether a server says that it is ready."""
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=2):
            return True
    except OSError:
        return False


def engine_properties(url: str) -> dict[str, Any]:
    """Return the device, the precision and the batch size of a server's engine."""
    with urllib.request.urlopen(f"{url}/info", timeout=5) as response:
        engine = json.load(response)["engine"]
    return {key: engine[key] for key in ("device", "dtype", "max_batch_tokens", "trials")}


def measure(url: str, load: Load) -> dict[str, Any]:
    """Send a load from several processes; return their results together."""
    processes = 1 if QUICK else max(1, min(6, load.clients // 8))
    share, rest = divmod(load.clients, processes)
    parts = [load._replace(clients=share + (index < rest)) for index in range(processes)]
    found = collect([start_load(url, part, seed) for seed, part in enumerate(parts)])
    if not found:
        return {"failed": "no process of the load has ended well"}
    rate = sum(each["per_s"] for each in found)
    return {
        "requests_per_s": round(rate, 1),
        "texts_per_s": round(rate * load.texts, 1),
        "p50_ms": round(sorted(each["p50_ms"] for each in found)[len(found) // 2], 2),
        "p99_ms": round(max(each["p99_ms"] for each in found), 2),
        "refused": sum(each["refused"] for each in found),
        "first_refused": next((each["first_refused"] for each in found if each["refused"]), None),
        "busiest_client_cores": round(max(each["cpu_s"] for each in found) / (SECONDS + 2), 2),
    }


def start_load(url: str, load: Load, seed: int) -> "subprocess.Popen[str]":
    """Start a process of the load."""
    port = url.rpartition(":")[2]
    options = [load.clients, SECONDS, load.kind, load.texts, load.format, seed]
    command = [sys.executable, "-m", "deploy.gpu.http_load", port, *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def collect(processes: Sequence["subprocess.Popen[str]"]) -> list[dict[str, Any]]:
    """Return the results of the processes that end in time."""
    found = []
    for process in processes:
        try:
            output, _ = process.communicate(timeout=SECONDS + 20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            continue
        if process.returncode == 0:
            found.append(json.loads(output))
    return found


def load_test(url: str) -> dict[str, Any]:
    """Run the load test of this project against a server; return the main results."""
    file = OUT / "loadtest.json"
    options = {
        "--clients": 64,
        "--mix": "query=1",
        "--processes": 1 if QUICK else 4,
        "--duration": _LOAD_TEST_SECONDS,
        "--warmup": 1,
        "--url": url,
        "--json": file,
    }
    arguments = [str(part) for option in options.items() for part in option]
    command = [sys.executable, "-m", "deploy.loadtest", *arguments]
    subprocess.run(command, capture_output=True, timeout=40, check=True)
    report = json.loads(file.read_text(encoding="utf-8"))
    file.unlink()
    keys = ("requests_per_second", "tokens_per_second", "client_cores", "milliseconds", "outcomes")
    return {key: report[key] for key in keys}


def measure_server(workers: int, loads: Sequence[Load], end: float, *, own: bool) -> None:
    """Start a server, send it each load while there is time, and append the results.

    own: run the load test of this project, too.
    """
    start = time.monotonic()
    with server(workers, OUT / "server.log", end) as url:
        ready = round(time.monotonic() - start, 1)
        append_line(
            RESULTS,
            {"model": MODEL, "workers": workers, "ready_s": ready, **engine_properties(url)},
        )
        for load in loads:
            if time.monotonic() > end - SECONDS - 4:
                return
            line = {"workers": workers, **load._asdict(), **measure(url, load)}
            append_line(RESULTS, line)
        if own and time.monotonic() < end - 2 * _LOAD_TEST_SECONDS:
            append_line(RESULTS, {"workers": workers, "load_test": load_test(url)})


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which stops the server
    end = time.monotonic() + float(sys.argv[1] if len(sys.argv) > 1 else 100)
    failed = False
    for index, (workers, loads) in enumerate((QUICK_LOADS if QUICK else LOADS).items()):
        if time.monotonic() > end - _START_SECONDS:
            break
        try:
            measure_server(workers, loads, end, own=index == 0)
        except (ServerFailed, OSError, subprocess.SubprocessError) as error:
            failed = True
            append_line(RESULTS, {"workers": workers, "failed": str(error)})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
