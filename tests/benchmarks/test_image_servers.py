"""The benchmark of images over HTTP: its requests and report."""

import base64
import json
from collections import Counter

import httpx
import pytest

from benchmarks.image_servers import CLIENTS, body, report, send
from benchmarks.machine import describe
from tests.http_receiver import HttpReceiver


class Receiver(HttpReceiver):
    """A server that keeps what it gets, and responds with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(keep_alive=True)
        self.bodies: Counter[bytes] = Counter()
        self._status = status

    def post(self, path: str, body: bytes) -> int:
        self.bodies[body] += 1
        return self._status


def test_a_request_has_an_image_as_a_data_url() -> None:
    request = json.loads(body(b"pixels"))
    (url,) = request["input"]
    assert request["modality"] == "image" and url.startswith("data:image/jpeg;base64,")
    assert base64.b64decode(url.partition(",")[2]) == b"pixels"


@pytest.mark.parametrize("clients", CLIENTS)
def test_each_client_sends_an_image_even_after_the_time(clients: int) -> None:
    with Receiver(200) as server:
        load = send(server.url, [b"one", b"two"], clients, seconds=0)
    assert server.bodies[b"one"] == (clients + 1) // 2
    assert server.bodies[b"two"] == clients // 2
    assert load["images_per_second"] > 0 and 0 < load["p50"] <= load["p99"]


def test_a_failed_request_ends_the_load() -> None:
    with Receiver(503) as server, pytest.raises(httpx.HTTPStatusError):
        send(server.url, [b"one"], 2, seconds=0)


def test_the_report_has_each_load_of_a_server() -> None:
    load = {"images_per_second": 20.0, "p50": 0.05, "p99": 0.0625}
    results = {
        **{"machine": describe(), "model": "clip", "threads": 2, "rounds": 2, "seconds": 20.0},
        "servers": {"this, auto": {str(clients): [load, load] for clients in CLIENTS}},
        "min_cosine": {"this, auto": 0.99998},
    }
    *_, row = report(results).splitlines()
    cells = ["20.0", "(20.0-20.0)", "50.0", "(50.0-50.0)", "62.5", "(62.5-62.5)"]
    assert row.split() == ["this,", "auto", *cells, *cells, "0.99998"]
