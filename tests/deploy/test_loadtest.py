"""The load test in deploy/loadtest: its search for capacity, and its reports of a real server."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.loadtest.capacity import Point, as_json, compare, find_capacity, point
from deploy.loadtest.loadtest import Plan, Run, Sample
from tests.conftest import Folder
from tests.service.local_server import local_server

pytestmark = pytest.mark.full

PLAN = Plan(
    url="http://localhost:8080",
    path="/embed",
    model="small",
    api_key="secret",
    rate=0,
    clients=0,
    duration=12,
    warmup=2,
    timeout=60,
    texts_per_request=1,
    mix={"query": 1.0},
    seed=0,
)


class Queue:
    """A server that handles one request at a time; its queue grows without bound above its rate."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.measured: list[float] = []

    def measure(self, rate: float) -> Point:
        self.measured.append(rate)
        p99 = 1000 / (self._rate - rate) if rate < self._rate else math.inf
        return Point(rate, min(rate, self._rate), p99 / 5, p99, 0.0, 0.1)


@pytest.mark.parametrize("rate", [0.3, 3.0, 70.0, 900.0])
def test_the_highest_rate_within_the_bound_is_found(rate: float) -> None:
    queue = Queue(rate)
    highest = 0.9 * rate  # where p99 is the bound
    capacity, points = find_capacity(queue.measure, 10_000 / rate)
    assert highest / 1.06 <= capacity <= highest
    assert [each.offered for each in points] == sorted(queue.measured)
    assert len(queue.measured) < 16


def test_without_a_rate_within_the_bound_the_capacity_is_zero() -> None:
    capacity, points = find_capacity(Queue(100).measure, 1)
    assert capacity == 0 and points


def test_a_search_without_an_upper_end_ends() -> None:
    capacity, _ = find_capacity(Queue(math.inf).measure, 1)
    assert 50_000 < capacity <= 100_000


def test_a_refused_request_counts_as_infinitely_long() -> None:
    def sample(second: int, outcome: str, total: float = 0.1) -> Sample:
        return Sample(float(second), 0.001, total, outcome)

    good = [sample(second, "200") for second in range(2, 12) for _ in range(99)]
    warmup = [sample(0, "503", 9.0)] * 50
    found = point(PLAN, Run([*warmup, *good, *[sample(5, "429")] * 10]))
    assert (found.offered, found.answered) == (100, 99) and found.p99 == pytest.approx(100)
    assert found.shed == pytest.approx(0.01) and found.lag == pytest.approx(1)
    found = point(PLAN, Run([*good, *[sample(5, "429")] * 11]))
    assert found.p50 == pytest.approx(100) and found.p99 == math.inf


def test_a_report_names_no_secret_and_is_json() -> None:
    points = [Point(8.0, 8.0, 5.0, math.inf, 0.5, 1.0)]
    report = json.loads(json.dumps(as_json(PLAN, 50, 4.0, points, {}), allow_nan=False))
    assert "secret" not in str(report) and report["points"][0]["p99"] is None


def test_only_reports_of_the_same_load_are_compared() -> None:
    def report(capacity: float, plan: Plan = PLAN, bound: float = 50) -> dict[str, Any]:
        return as_json(plan, bound, capacity, [], {})

    assert compare(report(110), report(100)) == "+10 % against 100.0 requests/s"
    elsewhere = replace(PLAN, url="http://other:8080", api_key=None)
    assert compare(report(50, elsewhere), report(100)) == "-50 % against 100.0 requests/s"
    for other in (report(1, bound=60), report(1, replace(PLAN, mix={"document": 1.0}))):
        with pytest.raises(ValueError, match=r"another (bound_ms|plan)"):
            compare(report(110), other)


def run_loadtest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.loadtest", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_capacity_of_a_server_is_reported_and_drawn(tiny_bert: Folder, tmp_path: Path) -> None:
    file, plot = tmp_path / "a.json", tmp_path / "a.svg"
    with local_server(tiny_bert(), threads=1) as server:
        load = ["--url", server.url, "--mix", "query=1"]
        load += ["--duration", "1.5", "--warmup", "0.5"]
        shorter = ["--duration", "0.6", "--warmup", "0.1"]
        process = run_loadtest("--find-capacity", "1e-3", *load, *shorter)
        assert process.returncode == 1 and "0.0 requests/s" in process.stdout, process.stderr
        search = ["--find-capacity", "1000", *load]
        process = run_loadtest(*search, "--json", str(file), "--plot", str(plot))
        assert process.returncode == 0, process.stderr
        again = run_loadtest(*search, "--baseline", str(file), "--seed", "1")
    assert again.returncode == 1 and "measured with another plan" in again.stderr
    report = json.loads(file.read_text())
    assert f"{report['capacity']:.1f} requests/s" in process.stdout
    assert report["server"]["engine"]["dtype"] == "float32"
    held = [each["offered"] for each in report["points"] if (each["p99"] or math.inf) <= 1000]
    assert report["capacity"] > 0 and held and plot.read_text().startswith("<?xml")


@pytest.mark.full
def test_a_single_run_has_a_table_of_times(tiny_bert: Folder, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with local_server(tiny_bert()) as server:
        # Long enough that a busy machine answers a query after the warm-up, too.
        load = ["--url", server.url, "--duration", "5", "--warmup", "0.5", "--mix", "query=1"]
        process = run_loadtest("--clients", "2", *load, "--json", str(file))
    assert process.returncode == 0, process.stderr
    assert {"lag", "tokenize", "queue", "compute", "total"} <= set(process.stdout.split())
    assert json.loads(file.read_text())["outcomes"].keys() == {"200"}


def test_bodies_for_other_load_generators_are_valid_requests(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    file = tmp_path / "bodies.jsonl"
    assert run_loadtest("--write-bodies", str(file), "--mix", "query=1").returncode == 0
    bodies = file.read_text().split("\n")
    assert len(bodies) == 1000 and len(set(bodies)) > 900
    with local_server(tiny_bert()) as server:
        responses = {server.client.post("/embed", content=b).status_code for b in bodies[:20]}
    assert responses == {200}
