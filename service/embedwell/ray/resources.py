"""The processors and GPUs of the actors of a cluster."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from embedwell.bulk.errors import BulkError

_NODE_GROUP = "ray.io/node-group"
"""A label of nodes that Ray's autoscaler or KubeRay has started: there may be others later."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resources:
    """Of one actor. cpus: its threads, too."""

    cpus: int = 1
    gpus: int = 0

    @classmethod
    def of_node(cls, node: Mapping[str, Any]) -> "Resources":
        """All that one of ray.nodes() has."""
        total = node["Resources"]
        return cls(int(total.get("CPU", 0)), int(total.get("GPU", 0)))

    def __str__(self) -> str:
        return f"{self.cpus} processors and {self.gpus} GPUs"

    def fit(self, node: "Resources") -> bool:
        """Whether a node has as many."""
        return self.cpus <= node.cpus and self.gpus <= node.gpus


def plan_actors(
    nodes: Sequence[Mapping[str, Any]],
    actors: int | None = None,
    cpus: int | None = None,
    on_cpus: bool = False,
) -> list[Resources]:
    """Choose the resources of each actor. Raises BulkError for a cluster without processors.

    By default an actor for each GPU; without any, one for each node, with all its processors.
    nodes: of ray.nodes(). cpus: of each actor; alone it fills the nodes. on_cpus: not to use GPUs.
    """
    totals = [Resources.of_node(node) for node in nodes if node["Alive"]]
    gpus = sum(total.gpus for total in totals)
    if gpus and not on_cpus:
        return [Resources(cpus or 1, 1)] * (actors or gpus)
    processors = [total.cpus for total in totals]
    if actors is not None and cpus is not None:
        return [Resources(cpus)] * actors
    if not any(processors):
        raise BulkError("the Ray cluster has neither processors nor GPUs")
    if actors is not None:
        share = min(
            sum(processors) // actors, max(processors)
        )  # more than a node has is never free
        return [Resources(max(1, share))] * actors
    if cpus is not None:
        return [Resources(cpus)] * max(1, sum(count // cpus for count in processors))
    return [Resources(count) for count in processors if count]


def check_nodes(nodes: Sequence[Mapping[str, Any]], plan: Sequence[Resources]) -> None:
    """Raise BulkError if no node has what an actor needs; only warn if there may be others later.

    nodes: of ray.nodes().
    """
    alive = [node for node in nodes if node["Alive"]]
    totals = [Resources.of_node(node) for node in alive]
    for needed in dict.fromkeys(plan):
        if not any(needed.fit(total) for total in totals):
            largest = max(totals, key=lambda total: (min(total.gpus, needed.gpus), total.cpus))
            problem = f"an actor needs {needed}, and the largest node has {largest}"
            if not any(_NODE_GROUP in node["Labels"] for node in alive):
                raise BulkError(f"{problem}: give --actor-cpus that a node has")
            log.warning("%s: waiting for the cluster to start another", problem)


def actor_defaults() -> dict[str, Any]:
    """Settings that fit what Ray has given to this actor; none outside an actor.

    One thread for an actor with no processor, or with a part of one.
    """
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return {}
    assigned = context.get_assigned_resources()  # type: ignore[no-untyped-call]
    # Ray does not hide GPUs from an actor that was given none.
    device = {} if assigned.get("GPU") else {"device": "cpu"}
    return {"threads": max(1, int(assigned.get("CPU", 1))), **device}
