"""The way of a request through the code: files, calls and moves between packages, by process."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import psutil

from embedwell.launch.supervised import ENGINE, HTTP_PROCESS
from tests.gateways import free_port

_CORE = {"embedwell", "embedwell_models"}
_HOOK = Path(__file__).parent / "hook"
_LIMIT = 120  # seconds for a start, and for a trace to be written
_WARM, _TRACES = 5, 9  # requests


@dataclass(frozen=True)
class Trace:
    """What one warm POST /embed of a short text does in a process, and what the process imported.

    files, calls: of the project's functions. moves: between files. package_moves: between packages.
    modules: of the project, that are loaded. wing_modules: those of the wings among them.
    """

    files: int
    calls: int
    moves: int
    package_moves: int
    modules: int
    wing_modules: int


def trace_request(python_path: str, model: Path) -> dict[str, dict[str, int]]:
    """Return the numbers of the HTTP process and of the engine of a build.

    They are the least of several requests, because other work can come between.

    python_path: PYTHONPATH of the build.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(python_path, model, Path(folder)) as run,
    ):
        process, url = run
        children = {child.name(): child for child in psutil.Process(process.pid).children()}
        traced = {"http": children[HTTP_PROCESS], "engine": children[ENGINE]}
        with httpx.Client(base_url=url, timeout=_LIMIT) as client:
            for _ in range(_WARM):
                client.post("/embed", json={"inputs": "a warm text"})
            traces = [_trace(client, traced, Path(folder)) for _ in range(_TRACES)]
    least = {
        name: {key: min(trace[name][key] for trace in traces) for key in traces[0][name]}
        for name in traced
    }
    for key in ("calls", "moves"):  # the engine looks for requests all the time after a request
        del least["engine"][key]
    return least


def _trace(
    client: httpx.Client, traced: Mapping[str, psutil.Process], folder: Path
) -> dict[str, dict[str, int]]:
    for child in traced.values():
        child.send_signal(signal.SIGUSR2)
    time.sleep(0.2)  # until both trace: a signal has no answer
    client.post("/embed", json={"inputs": "a short text"}).raise_for_status()
    for child in traced.values():
        child.send_signal(signal.SIGUSR2)
    return {name: asdict(_read(folder / f"{child.pid}.json")) for name, child in traced.items()}


@contextmanager
def run_server(
    python_path: str, model: Path, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Serve a model by the code of a build; yields the first process and the address.

    folder: for the cache, the log and traces.
    """
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if "EMBEDWELL_" not in name},
        **{"PYTHONPATH": f"{_HOOK}{os.pathsep}{python_path}", "TRACES": str(folder)},
        **{"EMBEDWELL_DTYPE": "float32", "EMBEDWELL_CACHE": str(folder / "cache")},
    }
    command = [sys.executable, "-P", "-m", "embedwell", "serve", str(model), "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stderr=log, stdout=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until(lambda: process.poll() is not None or _is_ready(url))
        assert process.poll() is None, (folder / "log").read_text()
        yield process, url
    finally:
        process.terminate()
        process.wait()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", timeout=_LIMIT).status_code == 200
    except httpx.TransportError:
        return False


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _read(path: Path) -> Trace:
    _wait_until(path.exists)
    trace: Mapping[str, list[str]] = json.loads(path.read_text())
    path.unlink()
    files = trace["calls"]
    return Trace(
        files=len({*files}),
        calls=len(files),
        moves=_changes(files),
        package_moves=_changes([_package(file) for file in files]),
        modules=len(trace["modules"]),
        wing_modules=sum(name.partition(".")[0] not in _CORE for name in trace["modules"]),
    )


def _package(file: str) -> str:
    # The folder below embedwell, embedwell_models or a wing; their own modules are together.
    parts = Path(file).parts
    root = max(i for i, part in enumerate(parts) if part.startswith("embedwell"))
    return "/".join(parts[root : root + 2]) if len(parts) > root + 2 else parts[root]


def _changes(steps: list[str]) -> int:
    return sum(before != after for before, after in itertools.pairwise(steps))
