"""Measure the load of many servers on gateway and network: `python -m benchmarks.scaling.nodes`.

One server and nginx in front of it, both on this machine, are measured under load; what a hundred
need is that times a hundred. wrk sends the requests, each with one short text.
"""

import argparse
import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks import load
from benchmarks.load import Load
from benchmarks.machine import cores
from benchmarks.serving import ours, running
from embedwell.launch.supervised import ENGINE, HTTP_PROCESS
from embedwell_models.hub.sources import DEFAULT, resolve

_LOAD = Load("short", 32)
_WARM = 3  # seconds
_NODES = (1, 10, 100)
_GATEWAY = Path(__file__).parents[2] / "deploy/gateway"
_PORT = 8766
_PATH = "/v1/embeddings"
_ROLES = {HTTP_PROCESS: "http", ENGINE: "engine", "nginx": "gateway"}
"""Names of processes, and what they are."""
FORMS: Mapping[str, Mapping[str, str]] = {
    "numbers": {},
    "base64, as OpenAI's client": {"encoding_format": "base64"},
}
"""Fields of a request."""


@dataclass(frozen=True)
class Cost:
    """The cost of a request: seconds of CPU time, and bytes with headers, each way."""

    http: float
    engine: float
    gateway: float
    received: int
    sent: int


@dataclass(frozen=True)
class Needs:
    """The load of a number of servers on the gateway and the network.

    requests: a second. gateway_cores: of the gateways together. gigabits: a second, the larger of
    both ways, which is that of the gateway's answers.
    """

    requests: float
    gateway_cores: float
    gigabits: float


def needs(cost: Cost, nodes: int, threads: int) -> Needs:
    """Compute the needs of `nodes` servers of `threads` processors each, all of them busy."""
    requests = nodes * threads / (cost.http + cost.engine)
    gigabits = requests * max(cost.received, cost.sent) * 8 / 1e9
    return Needs(requests, requests * cost.gateway, gigabits)


def table(costs: Mapping[str, Cost], threads: int) -> str:
    """Markdown tables of what a request costs, and of what servers need."""
    lines = [
        "| a vector as | HTTP process | engine | nginx | bytes in | bytes out |",
        "|---|---|---|---|---|---|",
        *(
            f"| {form} | {1000 * c.http:.2f} ms | {1000 * c.engine:.2f} ms "
            f"| {1000 * c.gateway:.3f} ms | {c.received:,} | {c.sent:,} |"
            for form, c in costs.items()
        ),
        "",
        "| servers | a vector as | requests a second | cores of nginx | Gbit/s |",
        "|---|---|---|---|---|",
    ]
    for nodes in _NODES:
        for form, cost in costs.items():
            n = needs(cost, nodes, threads)
            row = f"{n.requests:,.0f} | {n.gateway_cores:.1f} | {n.gigabits:.2f}"
            lines.append(f"| {nodes} | {form} | {row} |")
    return "\n".join(lines)


def measure(model: str, dtype: str, threads: int, seconds: int) -> dict[str, Cost]:
    """Measure the cost of a request in each of FORMS, through nginx; needs wrk."""
    load.require()
    folder = resolve(model)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with running(ours(dtype), folder, scratch, threads) as url, _gateway(scratch, url) as front:
            return {form: _cost(front, scratch, fields, seconds) for form, fields in FORMS.items()}


def _cost(url: str, folder: Path, fields: Mapping[str, str], seconds: int) -> Cost:
    bodies = load.write(folder, fields, seed=0)
    load.send(url, _LOAD, bodies, _WARM)
    before = _cpu_seconds()
    result = load.send(url, _LOAD, bodies, seconds)
    if result["refused"]:
        raise SystemExit(f"{result['refused']} requests were refused: close other programs")
    spent = {role: after - before[role] for role, after in _cpu_seconds().items()}
    body = bodies[_LOAD].read_text().partition("\n")[0].encode()
    each = {role: value / result["requests"] for role, value in spent.items()}
    return Cost(**each, **_sizes(url, body))


def _sizes(url: str, body: bytes) -> dict[str, int]:
    response = httpx.post(url, content=body, headers={"content-type": "application/json"})
    request = response.raise_for_status().request
    return {
        "received": _head_size(request.headers.raw) + len(body),
        "sent": _head_size(response.headers.raw) + len(response.content),
    }


def _head_size(headers: Sequence[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers) + 40  # and the first line


def _cpu_seconds() -> dict[str, float]:
    """Seconds of all processes of a role that were started here, since they began."""
    spent = dict.fromkeys(_ROLES.values(), 0.0)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if role := _ROLES.get(process.name()):
                times = process.cpu_times()
                spent[role] += times.user + times.system
    return spent


@contextlib.contextmanager
def _gateway(folder: Path, server: str) -> Iterator[str]:
    """The URL of nginx with the configuration in deploy/gateway, in front of a server."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if nginx is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light")
    shutil.copy(_GATEWAY / "nginx.conf", folder)
    (folder / "listen.conf").write_text(f"listen 127.0.0.1:{_PORT};")
    (folder / "upstream.conf").write_text(f"server {httpx.URL(server).netloc.decode()};")
    command = [nginx, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "user root;"]
    with (folder / "nginx.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{_PORT}{_PATH}"
        while process.poll() is None and not _answers(url):
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        httpx.get(url)
        return True
    return False


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.nodes", description=__doc__)
    add = parser.add_argument
    add("--model", default=DEFAULT, help="a folder or a bundled name")
    add("--dtype", default="auto", help="of the server")
    add("--threads", type=int, default=cores(), help="of the server")
    add("--seconds", type=int, default=15, help="of each form of an answer")
    args = parser.parse_args()
    costs = measure(args.model, args.dtype, args.threads, args.seconds)
    print(table(costs, args.threads))


if __name__ == "__main__":
    main()
