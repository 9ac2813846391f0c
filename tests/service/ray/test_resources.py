"""The processors and GPUs of actors."""

from typing import Any

import pytest

from service.bulk.errors import BulkError
from service.ray.resources import Resources, plan_actors

pytestmark = pytest.mark.full


def nodes(*resources: dict[str, float]) -> list[dict[str, Any]]:
    return [{"Alive": True, "Resources": each} for each in resources]


CPUS = nodes({}, {"CPU": 4.0}, {"CPU": 8.0})
GPUS = nodes({"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0})


@pytest.mark.parametrize(
    ("cluster", "actors", "cpus", "expected"),
    [
        (CPUS, None, None, [Resources(4), Resources(8)]),
        (CPUS, 3, None, [Resources(4)] * 3),
        (CPUS, 100, None, [Resources(1)] * 100),
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
