"""Actors of a Ray cluster as a TextEncoder."""

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
)

from embedwell_bulk import BulkError
from embedwell_bulk.dispatch import Dispatcher, WorkerDied, WorkerFailed
from embedwell_bulk.local_model import LocalModel, load_local_model
from embedwell_bulk.ray.resources import Resources, check_nodes, plan_actors, read_settings
from embedwell_models.vectors import Floats

_IN_FLIGHT = 2  # calls of an actor; the next one waits while it computes one
_POLL = 0.1  # seconds between checks whether an actor has loaded its model
_ACTOR_DIED = (RayActorError, OutOfMemoryError, NodeDiedError)
_MAX_LOADS = 3  # attempts to load a model whose actor dies


class ModelActor:
    """A model in a process of the cluster; it is loaded at the first call."""

    def __init__(self, settings: Mapping[str, Any], prompt: str | None) -> None:
        self._settings, self._prompt = read_settings(settings), prompt

    @cached_property
    def _model(self) -> LocalModel:
        return load_local_model(self._settings, self._prompt)

    def describe(self) -> Mapping[str, Any]:
        """Like TextEncoder.description. Raises BulkError."""
        return self._model.description

    def embed(self, texts: Sequence[str], fingerprint: str) -> tuple[Floats, Mapping[int, str]]:
        """Like LocalModel.embed. Raises BulkError if the fingerprint is another model's."""
        if self._model.embedder.fingerprint != fingerprint:
            node = ray.get_runtime_context().get_node_id()
            raise BulkError(
                f"the node {node} has another model or precision than the first node; give all "
                "nodes the same"
            )
        return self._model.embed(texts, lambda _: None)


@dataclass(eq=False)
class ActorWorker:
    """A ModelActor as a Worker; starts another actor when it has died."""

    number: int
    resources: Resources
    settings: Mapping[str, Any]
    prompt: str | None
    in_flight: int = 0
    fingerprint: str = ""
    _calls: dict["Future[Any]", Any] = field(default_factory=dict)  # and the handle of each actor
    _suspect: "Future[Any] | None" = None  # the call during which the actor died

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        resources = {"num_cpus": self.resources.cpus, "num_gpus": self.resources.gpus}
        device = {} if self.resources.gpus else {"device": "cpu"}
        settings = {**self.settings, **device}
        if not settings.get("threads"):
            settings["threads"] = self.resources.cpus
        remote: Any = ray.remote(ModelActor).options(**resources)
        self.handle = remote.remote(settings, self.prompt)
        self.description_ref = self.handle.describe.remote()
        self._loaded = self.description_ref.future()

    def describe(self, timeout: float) -> Mapping[str, Any]:
        """Return ModelActor.describe of an actor that survived loading the model.

        Raises BulkError.

        timeout: seconds for all actors that are started.
        """
        end = time.monotonic() + timeout
        for left in reversed(range(_MAX_LOADS)):
            try:
                description: Mapping[str, Any] = ray.get(
                    self.description_ref, timeout=max(0.0, end - time.monotonic())
                )
                break
            except GetTimeoutError:
                raise BulkError(
                    f"no actor has loaded the model in {timeout:.0f} s; check with `ray "
                    f"status` that the cluster has {self.resources} free"
                ) from None
            except _ACTOR_DIED as error:
                if not left:
                    problem = f"{_MAX_LOADS} actors have died while they loaded the model"
                    raise BulkError(f"{problem}: {error}") from None
                self._start()
            except RayError as error:
                raise _bulk_error(error) from None
        return description

    @property
    def free_at(self) -> float:
        if not self._loaded.done():
            return time.monotonic() + _POLL
        return np.inf if self.in_flight >= _IN_FLIGHT else 0.0

    def submit(self, texts: Sequence[str]) -> "Future[Any]":
        future: Future[Any] = self.handle.embed.remote(texts, self.fingerprint).future()
        self._calls[future] = self.handle
        return future

    def result(self, future: "Future[Any]") -> tuple[Floats, Mapping[int, str]]:
        handle = self._calls[future]
        try:
            vectors, rejected = future.result()
        except RayTaskError as error:
            raise _bulk_error(error) from None
        except RayError as error:  # died with the actor, or its result was lost with a node
            # An actor with another handle is replaced already.
            if isinstance(error, _ACTOR_DIED) and handle is self.handle:
                self._suspect = self._computed_by(handle)
                self._start()
            kind = WorkerDied if future is self._suspect else WorkerFailed
            raise kind(f"the actor {self.number} failed: {error}") from None
        finally:
            del self._calls[future]
        return vectors, rejected

    def note_success(self) -> None: ...
    def note_failure(self) -> None: ...

    def _computed_by(self, handle: Any) -> "Future[Any] | None":
        """Return the call that an actor computed when it died; None if it was loading the model."""
        if self._loaded.exception() is not None:
            return None
        calls = [call for call, of in self._calls.items() if of is handle]
        return next((c for c in calls if not c.done() or c.exception() is not None), None)


def _bulk_error(error: RayError) -> BulkError:
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BulkError) else BulkError(str(error))


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
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here
    host, _, port = address.rpartition(":")
    dashboard = False if address == LOCAL else None
    try:
        if host:  # otherwise ray.init would wait for minutes
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address, logging_level=logging.ERROR, include_dashboard=dashboard)
    except (OSError, RuntimeError, ValueError) as error:
        raise BulkError(f"cannot connect to a Ray cluster at {address}: {error}") from None
