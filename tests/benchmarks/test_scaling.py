"""The simulation of autoscaling: its decisions, its queues and its outcome."""

import math
import random
from dataclasses import astuple

import pytest

from benchmarks.scaling.__main__ import Outcome, outcome, table
from benchmarks.scaling.cluster import Autoscaler, Load, Rule, ServerModel, Window, simulate
from benchmarks.scaling.nodes import Cost, needs
from benchmarks.scaling.nodes import table as nodes_table

pytestmark = pytest.mark.full

FIXED = Rule(min_servers=1, max_servers=1)


@pytest.mark.parametrize(
    ("servers", "wait", "utilization", "expected"),
    [
        (2, 0.0, 1.0, 2),  # half busy
        (4, 0.0, 3.5, 5),  # ceil(3.5 / 0.7)
        (4, 0.0, 3.05, 4),  # 2.9 / 2.8 is within the tolerance
        (4, 4.2, 2.8, 9),  # ceil(4.2 / 0.5): the larger of both
        (2, 40.0, 2.0, 20),  # the most servers, and ten times as many
    ],
)
def test_the_number_of_servers_follows_the_larger_metric(
    servers: int, wait: float, utilization: float, expected: int
) -> None:
    assert Autoscaler(Rule()).decide(0, servers, wait, utilization) == expected


def test_no_more_servers_are_added_than_in_a_period() -> None:
    scaler = Autoscaler(Rule(up_share=1.0, up_seconds=30, max_servers=100))
    assert scaler.decide(0, 2, 100, 2) == 4
    assert scaler.decide(15, 4, 100, 4) == 4
    assert scaler.decide(30, 4, 100, 4) == 8


def test_servers_are_removed_slowly_after_a_quiet_time() -> None:
    scaler = Autoscaler(Rule())
    assert scaler.decide(0, 16, 0, 16 * 0.7) == 16
    assert scaler.decide(285, 16, 0, 0.1) == 16
    assert scaler.decide(300, 16, 0, 0.1) == 12
    assert scaler.decide(315, 12, 0, 0.1) == 12
    assert scaler.decide(360, 12, 0, 0.1) == 9


class Steady(random.Random):
    """Dice that always fall on the mean."""

    def expovariate(self, lambd: float = 1.0) -> float:
        return 1 / lambd


def test_requests_queue_and_those_that_would_wait_too_long_are_refused() -> None:
    load = Load(lambda _: 10.0, [200], 10.0)
    assert [*load.arrivals(Steady())][:2] == [(0.1, 200), (0.2, 200)]
    [window] = simulate(load, ServerModel(1000, 30, max_wait=1.0), FIXED, 15.0)
    assert window.latencies[0] == pytest.approx(0.2)
    assert max(window.latencies) <= 1.2 + 1e-9
    assert len(window.latencies) == pytest.approx(50, abs=7)  # 1000 / 200 a second
    assert window.refused > 30 and window.percentile(0.99) == math.inf
    assert 0.2 <= window.percentile(0.1) < 1.2


def test_a_load_that_fits_waits_for_nothing() -> None:
    load = Load(lambda _: 1.0, [10], 100.0)
    windows = simulate(load, ServerModel(10_000, 30), FIXED)
    assert len(windows) == 7 and not any(window.refused for window in windows)
    assert all(window.percentile(1.0) == pytest.approx(0.001) for window in windows)


def test_servers_that_start_get_requests_when_they_are_ready() -> None:
    load = Load(lambda time: 10.0 if time < 60 else 100.0, [100], 300.0)
    windows = simulate(load, ServerModel(2000, 40), Rule(min_servers=1))
    assert [window.servers for window in windows if window.start < 60] == [1] * 4
    wanted = next(window.start for window in windows if window.wanted > 1)
    ready = next(window.start for window in windows if window.servers > 1)
    assert wanted >= 60 and 40 <= ready - wanted <= 60
    assert windows[-1].servers * 2000 * 0.75 >= 100 * 100
    assert not windows[-1].refused


def test_the_outcome_is_that_of_the_windows() -> None:
    windows = [Window(15.0 * i, 2, 2, latencies=[0.1] * 10) for i in range(60)]
    for i in (20, 21, 24):
        windows[i].latencies = [0.9] * 9
        windows[i].refused = 1
    found = outcome(windows, 0.5)
    assert found == Outcome(seconds=45, recovered=75, refused=3 / 600, servers=2.0)
    assert table([("a rule", found)]).endswith("| a rule | 75 s | 45 s | 0.50% | 2.0 |")


COST = Cost(http=0.0005, engine=0.0015, gateway=0.0001, received=300, sent=5000)


def test_what_servers_need_grows_with_their_number() -> None:
    for nodes in (1, 100):
        found = astuple(needs(COST, nodes, threads=2))
        assert found == pytest.approx((1000 * nodes, 0.1 * nodes, 0.04 * nodes))


def test_the_tables_have_a_row_for_each_form_and_number_of_servers() -> None:
    lines = nodes_table({"numbers": COST, "base64": COST}, 2).splitlines()
    assert lines[2] == "| numbers | 0.50 ms | 1.50 ms | 0.100 ms | 300 | 5,000 |"
    assert lines[-1] == "| 100 | base64 | 100,000 | 10.0 | 4.00 |" and len(lines) == 4 + 1 + 2 + 6
