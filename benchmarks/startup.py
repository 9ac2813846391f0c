"""Measure how a server starts: seconds to the first answer, CPU seconds and memory.

Each turn starts every contestant twice in each precision: with an empty startup cache, and again.
"""

import argparse
import compileall
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks import script
from benchmarks.environments import ROOT
from benchmarks.machine import describe, line
from benchmarks.script import spread, summary, table
from embedwell.launch.supervised import ENGINE, HTTP_PROCESS
from embedwell_models.hub.sources import resolve

_PORT = 8093
_TIMEOUT = 120.0  # seconds until the first answer
_TEXT = "how are shared objects released"
_PARTS = {
    **{HTTP_PROCESS: "HTTP", ENGINE: "engine"},
    **{"http_worker": "HTTP", "embedwell-fork": "fork server", "fork_server": "fork server"},
}
"""Names of processes, or modules that older ones ran, which had engines as grandchildren."""

Starts = list[dict[str, Any]]


@dataclass(frozen=True)
class Checkout:
    """A checkout of this project whose server is started by this interpreter, as NAME=FOLDER."""

    name: str
    folder: Path

    @classmethod
    def parse(cls, text: str) -> "Checkout":
        """Parse NAME=FOLDER; raises ArgumentTypeError."""
        name, equals, folder = text.partition("=")
        if not equals or not (Path(folder) / "service" / "embedwell").is_dir():
            raise argparse.ArgumentTypeError(f"{text} is not NAME=FOLDER of a checkout")
        return cls(name, Path(folder).resolve())

    def compile(self) -> None:
        """Write bytecode of its modules, as pip does when it installs them."""
        for part in ("models", "service"):
            compileall.compile_dir(self.folder / part, quiet=1)

    def environment(self) -> dict[str, str]:
        """Variables of its processes, without settings of the caller's server."""
        others = {name: value for name, value in os.environ.items() if "EMBEDWELL_" not in name}
        paths = [str(self.folder / part) for part in ("models", "service")]
        return others | {"PYTHONPATH": os.pathsep.join(paths)}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run all turns; return the results for the file."""
    folder = resolve(args.model)
    every = [Checkout("this", ROOT), *args.at]
    names = script.choose((each.name for each in every), args.only)
    checkouts = [each for each in every if each.name in names]
    for each in checkouts:
        each.compile()
    starts: dict[str, Starts] = {}
    for _ in range(args.rounds):
        for dtype in args.dtype:
            for each in checkouts:
                with tempfile.TemporaryDirectory() as cache:
                    for state in ("first", "later"):
                        name = f"{each.name}, {dtype}, {state} start"
                        measured = _start(each, folder, dtype, Path(cache), args)
                        starts.setdefault(name, []).append(measured)
    return {"machine": describe(), "model": folder.name, "requests": args.requests} | {
        "starts": starts
    }


def _start(
    checkout: Checkout, folder: Path, dtype: str, cache: Path, args: argparse.Namespace
) -> dict[str, Any]:
    """Start a server and stop it again; return its times and memory."""
    log = args.home / "startup.log"
    with _server(checkout, folder, dtype, cache, log) as (process, seconds):
        ready = {"seconds": seconds, "cpu_s": cpu_seconds(process), "pss_mb": pss_mb(process)}
        for number in range(args.requests):
            _ask(f"{number} {_TEXT} {number * number}")
        return ready | {"pss_after_mb": pss_mb(process)}


@contextmanager
def _server(
    checkout: Checkout, folder: Path, dtype: str, cache: Path, log_file: Path
) -> Iterator[tuple[psutil.Process, float]]:
    # Yields the first process, and the seconds until the first answer.
    own = {"EMBEDWELL_DTYPE": dtype, "EMBEDWELL_CACHE": str(cache), "EMBEDWELL_PORT": str(_PORT)}
    command = [sys.executable, "-P", "-m", "embedwell", "serve", "--model", str(folder)]
    environment = checkout.environment() | own
    begin = time.perf_counter()
    with log_file.open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, start_new_session=True)
        try:
            while not _answers():
                if process.poll() is not None or time.perf_counter() - begin > _TIMEOUT:
                    raise SystemExit(f"the server did not answer; see {log_file}")
                time.sleep(0.005)
            yield psutil.Process(process.pid), time.perf_counter() - begin
        finally:
            process.terminate()
            process.wait()


def _answers() -> bool:
    with contextlib.suppress(httpx.TransportError):
        return _ask(_TEXT) == httpx.codes.OK
    return False


def _ask(text: str) -> int:
    url = f"http://127.0.0.1:{_PORT}/embed"
    return _CLIENT.post(url, json={"inputs": text}).status_code


_CLIENT = httpx.Client(timeout=_TIMEOUT, trust_env=False)


def processes(first: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the processes of a server by what they are."""
    named: dict[str, list[psutil.Process]] = {"first": [first]}
    for child in first.children():
        module = child.cmdline()[-1].rpartition(".")[2]
        part = _PARTS.get(child.name()) or _PARTS.get(module, module)
        named.setdefault(part, []).append(child)
        named.setdefault("engine", []).extend(child.children())
    return named


def cpu_seconds(first: psutil.Process) -> dict[str, float]:
    """Return the CPU seconds of each kind of a server's processes, user and system."""
    return {
        name: sum(sum(each.cpu_times()[:2]) for each in group)
        for name, group in processes(first).items()
    }


def pss_mb(first: psutil.Process) -> dict[str, float]:
    """Return the megabytes of each kind of a server's processes; shared ones count once (PSS)."""
    return {
        name: sum(each.memory_full_info().pss for each in group) / 1e6
        for name, group in processes(first).items()
    }


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as text tables."""
    rows = [[name, *_cells(starts)] for name, starts in results["starts"].items()]
    parts = [
        [name, *(f"{_least(starts, key, part):.{digits}f}" for key, part, digits in _COLUMNS)]
        for name, starts in results["starts"].items()
    ]
    head = ["", "first answer, s", "CPU, s", "PSS, MB", f"after {results['requests']} requests"]
    return "\n".join(
        [
            line(results["machine"]),
            table(f"{results['model']}: median (range)", head, rows),
            table("least of each process", ["", *(f"{p} {k}" for k, p, _ in _COLUMNS)], parts),
        ]
    )


_COLUMNS = [
    (key, part, digits)
    for key, digits in (("cpu_s", 2), ("pss_mb", 0))
    for part in ("first", "HTTP", "engine")
]


def _cells(starts: Starts) -> list[str]:
    totals = [
        (summary([sum(start[key].values()) for start in starts]), digits)
        for key, digits in (("cpu_s", 2), ("pss_mb", 0), ("pss_after_mb", 0))
    ]
    seconds = summary([start["seconds"] for start in starts])
    return [spread(seconds, 2), *(spread(total, digits) for total, digits in totals)]


def _least(starts: Starts, key: str, part: str) -> float:
    return min(float(start[key].get(part, 0)) for start in starts)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = script.parser(__doc__, "startup")
    add = parser.add_argument
    add("--dtype", action="append", default=[], help="float32, int8 or auto; repeat it for several")
    add("--requests", type=int, default=100, help="before the memory is measured again")
    add("--at", type=Checkout.parse, action="append", default=[], metavar="NAME=FOLDER")
    return parser


def _run_with_defaults(args: argparse.Namespace) -> dict[str, Any]:
    args.dtype = args.dtype or ["float32", "int8", "auto"]
    return run(args)


def main() -> None:
    script.main(command_line(), _run_with_defaults, report)


if __name__ == "__main__":
    main()
