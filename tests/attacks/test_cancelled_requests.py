"""Clients that hang up before their requests are read."""

import signal
import sys

import psutil
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from tests.attacks.harness import connect, post
from tests.service.server import Server

pytestmark = pytest.mark.attack

CANCELLED, COMPLETE = 240, 8


def body(number: int) -> dict[str, list[str]]:
    return {"inputs": [f"seventeen {number} {index}" for index in range(1000)]}


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def test_requests_of_clients_that_hang_up_cost_little(victim: Server) -> None:
    [process] = victim.children(HTTP_PROCESS)
    start = processor_seconds(process)
    for number in range(COMPLETE):
        assert victim.post("/embed", body(number)).status_code == 200
    complete = processor_seconds(process) - start
    clients = [connect(victim.url) for _ in range(CANCELLED)]
    assert victim.post("/embed", {"inputs": "a"}).status_code == 200, "all are accepted"
    process.send_signal(signal.SIGSTOP)
    for number, client in enumerate(clients, COMPLETE):
        client.sendall(post("/embed", body(number)))
        client.close()
    start = processor_seconds(process)
    process.send_signal(signal.SIGCONT)
    gone = f'embedwell_requests_total{{path="/embed",status="499"}} {CANCELLED}.0'
    victim.wait_until(lambda: gone in victim.client.get("/metrics").text)
    cancelled = processor_seconds(process) - start
    sys.stdout.write(f"{COMPLETE} requests {complete:.2f} s, others {cancelled:.2f} s\n")
    assert cancelled < complete, "their bodies are parsed or tokenized"
    assert victim.post("/embed", {"inputs": "a"}).status_code == 200
