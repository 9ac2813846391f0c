"""The processors and GPUs of the actors of a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from service.bulk.errors import BulkError


@dataclass(frozen=True)
class Resources:
    """Of one actor. cpus: its threads, too."""

    cpus: int = 1
    gpus: int = 0


def plan_actors(
    nodes: Sequence[Mapping[str, Any]], actors: int | None = None, cpus: int | None = None
) -> list[Resources]:
    """Choose the resources of each actor. Raises BulkError for a cluster without processors.

    By default an actor for each GPU; without any, one for each node, with all its processors.
    nodes: of ray.nodes(). cpus: of each actor; alone it fills the nodes.
    """
    totals = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = sum(int(total.get("GPU", 0)) for total in totals)
    if gpus:
        return [Resources(cpus or 1, 1)] * (actors or gpus)
    processors = [int(total.get("CPU", 0)) for total in totals]
    if not any(processors):
        raise BulkError("the Ray cluster has neither processors nor GPUs")
    if actors is not None:
        return [Resources(cpus or max(1, sum(processors) // actors))] * actors
    if cpus is not None:
        return [Resources(cpus)] * max(1, sum(count // cpus for count in processors))
    return [Resources(count) for count in processors if count]


def assigned_processors() -> int:
    """The number of processors that Ray has given to this actor; 0 outside an actor.

    1 for an actor with none, or with a part of one.
    """
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return 0
    assigned = context.get_assigned_resources()  # type: ignore[no-untyped-call]
    return max(1, int(assigned.get("CPU", 1)))
