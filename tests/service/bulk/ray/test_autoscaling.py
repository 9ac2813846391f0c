"""The load of a server from its metrics, and the replicas that it needs."""

from dataclasses import dataclass

import pytest

from embedwell_bulk.ray.autoscaling import UTILIZATION, WAIT, LoadMeter, LoadPolicy
from tests.conftest import Folder
from tests.service.local_server import local_server

pytestmark = pytest.mark.full


@dataclass
class Context:
    """The parts of Ray's AutoscalingContext that a policy reads."""

    aggregated_metrics: dict[str, dict[str, float]] | None
    capacity_adjusted_min_replicas: int = 1
    capacity_adjusted_max_replicas: int = 20


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("waits", "utilizations", "replicas"),
    [
        ([0.0], [0.0], 1),
        ([2.0], [1.0], 4),
        ([0.0, 0.1], [0.7, 0.75], 3),
        ([0.0, 0.0, 0.0], [0.2, 0.2, 0.2], 1),
        ([100.0], [1.0], 20),
    ],
)
def test_the_larger_of_both_needs_decides_within_the_bounds(
    waits: list[float], utilizations: list[float], replicas: int
) -> None:
    loads = {
        name: {str(i): value for i, value in enumerate(values)}
        for name, values in ((WAIT, waits), (UTILIZATION, utilizations))
    }
    assert LoadPolicy(0.5, 0.7)(Context(loads)) == (replicas, {})


def test_replicas_that_were_needed_in_the_last_five_minutes_are_kept() -> None:
    clock = Clock()
    policy = LoadPolicy(0.5, 0.7, clock)
    numbers = []
    for clock.now, wait in ((0, 2.0), (10, 4.0), (20, 0.0), (309, 0.0), (311, 0.6), (700, 0.0)):
        numbers.append(policy(Context({WAIT: {"a": wait}}))[0])
    assert numbers == [4, 8, 8, 8, 2, 1]


def test_without_a_report_there_are_as_few_replicas_as_may_be() -> None:
    assert LoadPolicy(0.5, 0.7)(Context(None, 2)) == (2, {})
    assert LoadPolicy(0.5, 0.7)(Context({}, 2)) == (2, {})


def test_the_load_is_read_from_the_metrics_of_a_server(tiny_bert: Folder) -> None:
    clock = Clock()
    with local_server(tiny_bert()) as server:
        meter = LoadMeter(clock)
        response = server.client.post("/embed", json={"inputs": ["a copy of this work"] * 50})
        tokens = int(response.headers["x-tokens"])
        metrics = server.client.get("/metrics").text
    speed = next(
        float(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("embedwell_tokens_per_second")
    )
    clock.now = 2.0
    assert meter.read(metrics) == {WAIT: 0.0, UTILIZATION: pytest.approx(tokens / 60 / speed)}
    clock.now = 61.0
    assert meter.read(metrics)[UTILIZATION] == pytest.approx(tokens / 61 / speed)
    clock.now = 122.0
    assert meter.read(metrics)[UTILIZATION] == 0


def test_a_server_without_a_model_reports_no_load() -> None:
    assert LoadMeter().read("") == {WAIT: 0.0, UTILIZATION: 0.0}
