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
    nodes: Sequence[Mapping[str, Any]],
    actors: int | None = None,
    cpus: int | None = None,
    on_cpus: bool = False,
) -> list[Resources]:
    """Choose the resources of each actor. Raises BulkError for a cluster without processors.

    By default an actor for each GPU; without any, one for each node, with all its processors.
    nodes: of ray.nodes(). cpus: of each actor; alone it fills the nodes. on_cpus: not to use GPUs.
    """
    totals = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = sum(int(total.get("GPU", 0)) for total in totals)
    if gpus and not on_cpus:
        return [Resources(cpus or 1, 1)] * (actors or gpus)
    processors = [int(total.get("CPU", 0)) for total in totals]
    if not any(processors):
        raise BulkError("the Ray cluster has neither processors nor GPUs")
    if actors is not None:
        return [Resources(cpus or max(1, sum(processors) // actors))] * actors
    if cpus is not None:
        return [Resources(cpus)] * max(1, sum(count // cpus for count in processors))
    return [Resources(count) for count in processors if count]


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
