"""Actors of a Ray cluster as a TextEncoder."""

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray

from embedwell.bulk.dispatch import Dispatcher
from embedwell.bulk.errors import BulkError
from embedwell.bulk.ray.actor_worker import ActorWorker
from embedwell.bulk.ray.resources import check_nodes, plan_actors

LOCAL = "local"
"""Address of a cluster that is started on this machine, and ends with the run."""

_TEXTS, _CHARACTERS = 256, 65536  # maximum of a call, which has at least one text
_CONNECT_SECONDS = 10.0
_FAILURE_TIMEOUT = 600.0  # seconds for a cluster to start an actor, or to recover from a failure


@contextmanager
def connect(
    address: str,
    settings: Mapping[str, Any],
    prompt: str | None,
    actors: int | None = None,
    cpus: int | None = None,
) -> Iterator[Dispatcher]:
    """Connect to a cluster, and start its actors. Raises BulkError.

    address: LOCAL, or an address for ray.init.
    settings: settings of the model.
    prompt: None for the model's default prompt.
    actors, cpus: see plan_actors.
    """
    _init(address)
    try:
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        plan = plan_actors(nodes, actors, cpus, on_cpus=settings.get("device") == "cpu")
        check_nodes(nodes, plan)
        workers = [ActorWorker(1, plan[0], settings, prompt)]
        description = workers[0].describe(_FAILURE_TIMEOUT)
        # `auto` may choose different precisions on different processors.
        pinned = {**settings, "dtype": description["precision"]}
        workers += [ActorWorker(i, each, pinned, prompt) for i, each in enumerate(plan[1:], 2)]
        for worker in workers:
            worker.settings, worker.fingerprint = pinned, description["fingerprint"]
        yield Dispatcher(workers, description, _TEXTS, _CHARACTERS, _FAILURE_TIMEOUT)
    finally:
        ray.shutdown()


def _init(address: str) -> None:
    os.environ.setdefault(
        "RAY_USAGE_STATS_ENABLED", "0"
    )  # arguments for a cluster that is started here
    host, _, port = address.rpartition(":")
    dashboard = False if address == LOCAL else None
    try:
        if host:  # otherwise ray.init would wait for minutes
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address, logging_level=logging.ERROR, include_dashboard=dashboard)
    except (OSError, RuntimeError, ValueError) as error:
        raise BulkError(f"cannot connect to a Ray cluster at {address}: {error}") from None
