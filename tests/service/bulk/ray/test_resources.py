"""The processors and GPUs of actors."""

import logging
from typing import Any

import pytest

from embedwell_bulk import BulkError
from embedwell_bulk.ray.resources import Resources, check_nodes, plan_actors

pytestmark = pytest.mark.full


def nodes(*resources: dict[str, float], **labels: str) -> list[dict[str, Any]]:
    return [{"Alive": True, "Resources": each, "Labels": labels} for each in resources]


CPUS = nodes({}, {"CPU": 4.0}, {"CPU": 8.0})
GPUS = nodes({"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0})


@pytest.mark.parametrize(
    ("cluster", "actors", "cpus", "expected"),
    [
        (CPUS, None, None, [Resources(4), Resources(8)]),
        (CPUS, 3, None, [Resources(4)] * 3),
        (CPUS, 1, None, [Resources(8)]),
        (CPUS, 100, None, [Resources(1)] * 100),
        (nodes({}), 2, 4, [Resources(4)] * 2),
        (CPUS, None, 2, [Resources(2)] * 6),
        (CPUS, None, 16, [Resources(16)]),
        (CPUS, 5, 2, [Resources(2)] * 5),
        (GPUS, None, None, [Resources(1, 1)] * 2),
        (GPUS, 1, 3, [Resources(3, 1)]),
    ],
)
def test_actors_fill_the_nodes_unless_their_number_or_size_is_given(
    cluster: list[dict[str, Any]],
    actors: int | None,
    cpus: int | None,
    expected: list[Resources],
) -> None:
    assert plan_actors(cluster, actors, cpus) == expected


def test_a_node_that_is_gone_gets_no_actor() -> None:
    gone = {"Alive": False, "Resources": {"CPU": 16.0}}
    assert plan_actors([*CPUS, gone]) == [Resources(4), Resources(8)]


def test_a_cluster_without_processors_is_refused() -> None:
    with pytest.raises(BulkError, match="neither processors nor GPUs"):
        plan_actors(nodes({"CPU": 0.0}))


@pytest.mark.parametrize(
    ("cluster", "needed", "message"),
    [
        (CPUS, Resources(9), "needs 9 processors and 0 GPUs, but the largest node has 8 proc"),
        (GPUS, Resources(9, 1), "the largest node has 8 processors and 2 GPUs"),
        (GPUS, Resources(1, 3), "the largest node has 8 processors and 2 GPUs"),
        ([*nodes({"CPU": 16.0}), *GPUS], Resources(9, 1), "has 8 processors and 2 GPUs"),
    ],
)
def test_an_actor_that_fits_on_no_node_is_refused(
    cluster: list[dict[str, Any]], needed: Resources, message: str
) -> None:
    with pytest.raises(BulkError, match=message):
        check_nodes(cluster, [needed])
    largest = Resources(needed.cpus - 1, needed.gpus) if needed.cpus > 1 else Resources(1, 2)
    check_nodes(cluster, [largest])


def test_a_cluster_that_may_grow_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    group = {"ray.io/node-group": "small"}
    with caplog.at_level(logging.WARNING):
        check_nodes(nodes({"CPU": 4.0}, **group), [Resources(4)])
        assert not caplog.messages
        check_nodes(nodes({"CPU": 4.0}, **group), [Resources(5)] * 2)
    [message] = caplog.messages
    assert "needs 5 processors" in message and "waiting" in message
