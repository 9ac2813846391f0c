"""Measure a server with four models (two dense, a reranker, a sparse): memory, loads, a crash."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks import heads, rerank, script, sparse
from benchmarks.machine import describe, line
from benchmarks.script import table
from embedwell.launch.supervised import ENGINE
from embedwell_models.hub.sources import resolve

_PORT, _KEY = 8091, "operator"
_CLIENT = httpx.Client(base_url=f"http://127.0.0.1:{_PORT}", timeout=60, trust_env=False)
_TEXT = "how are shared objects released"
_REQUESTS: Mapping[str, tuple[str, dict[str, Any]]] = {  # name of the model -> request
    "dense": ("/embed", {"inputs": _TEXT}),
    "dense-2": ("/embed", {"inputs": _TEXT}),
    "reranker": ("/rerank", {"query": _TEXT, "texts": [_TEXT]}),
    "sparse": ("/embed_sparse", {"inputs": _TEXT}),
}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run all measurements; return the results for the file."""
    masked_lm = {"architectures": ["BertForMaskedLM"]}
    folders = {
        "dense": resolve(args.model),
        "dense-2": resolve(args.model),
        "reranker": heads.write_model(args, "reranker", rerank.CONFIG, rerank.head_tensors),
        "sparse": heads.write_model(args, "splade", masked_lm, sparse.head_tensors),
    }
    results: dict[str, Any] = {"machine": describe()}
    with _server(args, folders) as (process, started):
        results["start_s"] = started
        results["models"] = {name: _first_use(process, name) for name in folders}
        for name, measured in results["models"].items():
            measured["return_s"] = _unload_and_return(name)
        results["requests_per_second"] = {
            "dense alone": _rate(["dense"], args.seconds),
            "four in turn": _rate([*folders], args.seconds),
        }
        results["crash"] = _crash(process, [*folders], args.seconds)
    return results


@contextmanager
def _server(
    args: argparse.Namespace, folders: Mapping[str, Path]
) -> Iterator[tuple[psutil.Process, float]]:
    # Returns the process, and the seconds until it is ready with the first model.
    file, keep = args.home / "models.toml", ("always", *["on_demand"] * (len(folders) - 1))
    lines = []
    for (name, folder), kept in zip(folders.items(), keep, strict=True):
        pooling = ['pooling = "splade"'] if name == "sparse" else []
        lines += [f"[{name}]", f"source = {json.dumps(str(folder))}", f'keep = "{kept}"', *pooling]
    file.write_text("\n".join(lines), encoding="utf-8")
    own = {"EMBEDWELL_ADMIN_KEY": _KEY, "EMBEDWELL_DTYPE": "float32"}
    command = ["-m", "embedwell", "serve", "--models-file", str(file), "--port", str(_PORT)]
    begin = time.perf_counter()
    with (args.home / "several_models.log").open("w") as log:
        process = subprocess.Popen([sys.executable, *command], env=os.environ | own, stderr=log)
        try:
            while _status("/ready") != httpx.codes.OK:
                if process.poll() is not None:
                    raise SystemExit(f"the server ended; see {log.name}")
                time.sleep(0.01)
            yield psutil.Process(process.pid), time.perf_counter() - begin
        finally:
            process.terminate()
            process.wait()


def _status(path: str) -> int:
    with contextlib.suppress(httpx.TransportError):
        return _CLIENT.get(path).status_code
    return 0


def _first_use(process: psutil.Process, name: str) -> dict[str, float]:
    before = set() if name == "dense" else _engines(process)
    seconds = _ask(name)
    (engine,) = _engines(process) - before
    return {"first_s": seconds, "private_mb": engine.memory_full_info().uss / 1e6}


def _engines(process: psutil.Process) -> set[psutil.Process]:
    """Return the engine processes."""
    return {child for child in process.children() if child.name() == ENGINE}


def _ask(name: str) -> float:
    """Send a request to a model; return its seconds. Raises HTTPError unless it succeeds."""
    path, body = _REQUESTS[name]
    begin = time.perf_counter()
    _CLIENT.post(path, json=body | {"model": name}).raise_for_status()
    return time.perf_counter() - begin


def _unload_and_return(name: str) -> float:
    headers = {"authorization": f"Bearer {_KEY}"}
    _CLIENT.post(f"/models/{name}/unload", headers=headers).raise_for_status()
    return _ask(name)


def _load(names: list[str], seconds: float) -> list[tuple[str, float]]:
    """Send requests from eight clients to models in turn; return model and seconds of each."""
    end = time.monotonic() + seconds

    def client(number: int) -> list[tuple[str, float]]:
        times: list[tuple[str, float]] = []
        while time.monotonic() < end:
            name = names[(number + len(times)) % len(names)]
            times.append((name, _ask(name)))
        return times

    with ThreadPoolExecutor(8) as pool:
        return [each for times in pool.map(client, range(8)) for each in times]


def _rate(names: list[str], seconds: float) -> float:
    return len(_load(names, seconds)) / seconds


def _crash(process: psutil.Process, names: list[str], seconds: float) -> dict[str, Any]:
    """Kill one of the dense models' engines under load; no request may fail."""
    before = _engines(process)
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(_load, names, seconds)
        time.sleep(seconds / 2)
        killed = min(before, key=lambda engine: engine.create_time())  # of the first model
        killed.send_signal(signal.SIGKILL)
        times = load.result()
    own = [each for name, each in times if name == names[0]]
    others = [each for name, each in times if name != names[0]]
    return {"requests": len(times), "longest_s": max(own), "longest_of_others_s": max(others)}


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as text tables."""
    models = [
        [name, *(f"{one[key]:.2f}" for key in ("first_s", "return_s")), f"{one['private_mb']:.0f}"]
        for name, one in results["models"].items()
    ]
    rates = [[name, f"{rate:.0f}"] for name, rate in results["requests_per_second"].items()]
    crash = [[name, f"{round(value, 2):,}"] for name, value in results["crash"].items()]
    header = ["", "first request, s", "after an unload, s", "private MB"]
    return "\n".join(
        [
            line(results["machine"]),
            table(f"ready after {results['start_s']:.1f} s", header, models),
            table("eight clients", ["", "requests/s"], rates),
            table("kill -9 of the first model's engine, eight clients", ["", ""], crash),
        ]
    )


def main() -> None:
    parser = script.parser(__doc__, "several-models")
    parser.add_argument("--seconds", type=float, default=8, help="of each load")
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
