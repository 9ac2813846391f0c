"""Compare how fast this server and another embed images, one server at a time in rounds.

A client posts the next image as soon as it has the vector of the previous one. The models and the
images are those of benchmarks.images; both servers accept the same body, with a data URL.
"""

import argparse
import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks import machine, script
from benchmarks.contest import note
from benchmarks.environments import Unavailable
from benchmarks.image_models import SHAPES, folder
from benchmarks.images import draw_images
from benchmarks.peers.images import read
from benchmarks.peers.protocol import Floats
from benchmarks.script import spread, summary, table
from benchmarks.serving import MODEL, PEERS, Server, ours

CLIENTS = (1, 8)
_IMAGES = 32
_MODELS = ("clip", "siglip")  # of those that the peer serves
_COMPARED = 4  # images whose vectors are compared
_WARM = 1.0  # seconds of a load before the timing
_TIMEOUT = 120.0

Load = dict[str, float]
"""Images per second, and two quantiles of the seconds that one takes."""


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the comparison; return the results for the file."""
    every = [*(peer for peer in PEERS if peer.environment == "infinity"), *map(ours, args.dtype)]
    names = script.choose([each.name for each in every], args.only)
    servers = [each for each in every if each.name in names]
    model = folder(args.home, args.model)
    bodies = [body(each) for each in read(draw_images(args.home, args.seed, _IMAGES))]
    rounds: dict[str, dict[str, list[Load]]] = {}  # server -> clients -> of each round
    answers: dict[str, Floats] = {}
    for number in range(args.rounds):
        for server in [*servers]:
            note(f"round {number + 1} of {args.rounds}: {server.name}")
            try:
                measured, answers[server.name] = turn(server, model, bodies, args)
            except (Unavailable, httpx.HTTPError) as reason:
                note(f"skipped: {server.name}: {reason}")
                servers.remove(server)
                continue
            for clients, numbers in measured.items():
                rounds.setdefault(server.name, {}).setdefault(clients, []).append(numbers)
    return {
        "machine": machine.describe(),
        "model": args.model,
        "threads": args.threads,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "servers": rounds,
        "min_cosine": _least_cosines(answers),
    }


def body(image: bytes) -> bytes:
    """Return the body of a request for the vector of an encoded image."""
    url = f"data:image/jpeg;base64,{base64.b64encode(image).decode()}"
    return json.dumps({"model": MODEL, "input": [url], "modality": "image"}).encode()


def turn(
    server: Server, model: Path, bodies: Sequence[bytes], args: argparse.Namespace
) -> tuple[dict[str, Load], Floats]:
    """Start a server and run all loads on it, by the number of clients.

    Also returns its vectors of the first images.
    """
    loads = {}
    with server.run(model, args.home, args.threads) as url:
        for clients in CLIENTS:
            send(url, bodies, clients, _WARM)
            loads[str(clients)] = send(url, bodies, clients, args.seconds)
        with _client() as client:
            responses = [_post(client, url, each).json() for each in bodies[:_COMPARED]]
    return loads, np.array([each["data"][0]["embedding"] for each in responses])


def send(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> Load:
    """Post bodies in turn from some clients; raises HTTPError for a request that fails."""
    begin, turns = time.perf_counter(), cycle(bodies)
    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(_times, url, turns, begin + seconds) for _ in range(clients)]
        times = [each for client in running for each in client.result()]
    elapsed = time.perf_counter() - begin
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return {"images_per_second": len(times) / elapsed, "p50": p50, "p99": p99}


def _times(url: str, bodies: Iterator[bytes], end: float) -> list[float]:
    # The seconds of each request of a client, which sends at least one. Threads share the bodies:
    # no other runs while `next` takes one.
    times: list[float] = []
    with _client() as client:
        while not times or time.perf_counter() < end:
            content, begin = next(bodies), time.perf_counter()
            _post(client, url, content)
            times.append(time.perf_counter() - begin)
    return times


def _client() -> httpx.Client:
    headers = {"content-type": "application/json"}
    return httpx.Client(headers=headers, timeout=_TIMEOUT, trust_env=False)


def _post(client: httpx.Client, url: str, content: bytes) -> httpx.Response:
    return client.post(url, content=content).raise_for_status()


def _least_cosines(answers: Mapping[str, Floats]) -> dict[str, float]:
    """Return the least cosine of each server's vectors to the first server's."""
    units = {
        name: vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for name, vectors in answers.items()
    }
    return {
        name: float(np.vecdot(each, next(iter(units.values()))).min())
        for name, each in units.items()
    }


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    header = [""]
    for clients in CLIENTS:
        header += [f"images/s, {clients} client{'s' * (clients > 1)}", "p50, ms", "p99, ms"]
    rows = [
        [name, *(cell for count in CLIENTS for cell in _cells(loads[str(count)]))]
        for name, loads in results["servers"].items()
    ]
    for row in rows:
        row.append(f"{results['min_cosine'][row[0]]:.5f}")
    title = (
        f"{SHAPES[results['model']].title}, {results['threads']} threads, "
        f"{results['rounds']} rounds of {results['seconds']:g} seconds"
    )
    whole = table(title, [*header, "min cosine"], rows)
    return f"{machine.line(results['machine'])}\n{whole}"


def _cells(of_rounds: Sequence[Mapping[str, float]]) -> list[str]:
    units = {"images_per_second": 1.0, "p50": 1000, "p99": 1000}
    return [
        spread(summary([each[key] for each in of_rounds]), 1, unit) for key, unit in units.items()
    ]


def main() -> None:
    parser = script.parser(__doc__, "image-servers", _MODELS)
    add = parser.add_argument
    add("--seconds", type=float, default=20, help="of each load in each round")
    add("--dtype", nargs="+", default=["float32", "auto", "int8"], help="of this server")
    script.main(parser, run, report)


if __name__ == "__main__":
    main()
