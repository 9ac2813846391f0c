"""The processors, GPUs and settings of a cluster's actors."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from pydantic import ValidationError

from embedwell.cli.env_file import read_variables
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError

_NODE_GROUP = "ray.io/node-group"
"""A label of nodes that Ray's autoscaler or KubeRay has started, so more nodes may follow."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resources:
    """Resources of one actor.

    cpus: its processors, and its threads.
    """

    cpus: int = 1
    gpus: int = 0

    @classmethod
    def of_node(cls, node: Mapping[str, Any]) -> "Resources":
        """Return all resources of an entry of ray.nodes()."""
        total = node["Resources"]
        return cls(int(total.get("CPU", 0)), int(total.get("GPU", 0)))

    def __str__(self) -> str:
        return f"{self.cpus} processors and {self.gpus} GPUs"

    def fit(self, node: "Resources") -> bool:
        """Return whether a node has at least these resources."""
        return self.cpus <= node.cpus and self.gpus <= node.gpus


def plan_actors(
    nodes: Sequence[Mapping[str, Any]],
    actors: int | None = None,
    cpus: int | None = None,
    on_cpus: bool = False,
) -> list[Resources]:
    """Choose the resources of each actor. Raises BulkError for a cluster without processors.

    By default there is an actor for each GPU; without GPUs, one for each node, with all its
    processors.

    nodes: result of ray.nodes().
    cpus: processors of each actor; without a number of actors, they fill the nodes.
    on_cpus: whether to use no GPUs.
    """
    totals = [Resources.of_node(node) for node in nodes if node["Alive"]]
    gpus = sum(total.gpus for total in totals)
    if gpus and not on_cpus:
        return [Resources(cpus or 1, 1)] * (actors or gpus)
    processors = [total.cpus for total in totals]
    if actors is not None and cpus is not None:
        return [Resources(cpus)] * actors
    if not any(processors):
        raise BulkError("the Ray cluster has neither processors nor GPUs; start a node with some")
    if actors is not None:
        # More than a node has is never free.
        share = min(sum(processors) // actors, max(processors))
        return [Resources(max(1, share))] * actors
    if cpus is not None:
        return [Resources(cpus)] * max(1, sum(count // cpus for count in processors))
    return [Resources(count) for count in processors if count]


def check_nodes(nodes: Sequence[Mapping[str, Any]], plan: Sequence[Resources]) -> None:
    """Raise BulkError if no node has an actor's resources; only warn if more nodes may follow.

    nodes: result of ray.nodes().
    """
    alive = [node for node in nodes if node["Alive"]]
    totals = [Resources.of_node(node) for node in alive]
    for needed in dict.fromkeys(plan):
        if not any(needed.fit(total) for total in totals):
            largest = max(totals, key=lambda total: (min(total.gpus, needed.gpus), total.cpus))
            problem = f"an actor needs {needed}, but the largest node has {largest}"
            if not any(_NODE_GROUP in node["Labels"] for node in alive):
                raise BulkError(f"{problem}; lower --actor-cpus")
            log.warning("%s; waiting for the cluster to start another node", problem)


def actor_defaults() -> dict[str, Any]:
    """Return settings that match the resources that Ray has given to this actor; none outside one.

    An actor with no processor, or a part of one, gets one thread.
    """
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return {}
    assigned = context.get_assigned_resources()  # type: ignore[no-untyped-call]
    # Ray does not hide GPUs from an actor that has none.
    device = {} if assigned.get("GPU") else {"device": "cpu"}
    return {"threads": max(1, int(assigned.get("CPU", 1))), **device}


def read_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings of an actor, besides those of its environment. Raises BulkError."""
    try:
        check_names(values)
        return Settings(**{**read_variables(), **values})
    except ValidationError as error:
        [problem, *_] = error.errors(include_url=False)
        raise BulkError(f"{problem['loc'][0]}: {problem['msg']}") from None
    except ValueError as error:
        raise BulkError(str(error)) from None


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name that is not a setting."""
    for name in names:
        if name not in Settings.model_fields:
            raise ValueError(f"there is no setting {name!r}; see docs/settings.md")
