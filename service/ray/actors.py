"""Actors of a Ray cluster as a TextEncoder: each has the model, and one that dies is replaced."""

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

from models.vectors import Floats
from service.bulk.dispatch import Dispatcher, WorkerDied, WorkerFailed
from service.bulk.errors import BulkError
from service.bulk.loading import load_local_model
from service.bulk.local_model import LocalModel
from service.bulk.text_encoder import Advance
from service.ray.resources import Resources, plan_actors
from service.ray.settings import read_settings

LOCAL = "local"
"""The address of a cluster that is started on this machine, and ends with the run."""

_TEXTS = 256  # of a call
_IN_FLIGHT = 2  # calls of an actor: the next one is there when it has computed one
_POLL = 0.1  # seconds between two looks at whether an actor has loaded its model
_CONNECT_SECONDS = 10.0
_ACTOR_DIED = (RayActorError, OutOfMemoryError, NodeDiedError)
_FAILURE_TIMEOUT = 600.0  # seconds in which a cluster has to start an actor, or to mend a failure


class ModelActor:
    """A model in a process of the cluster, which is loaded at the first call."""

    def __init__(self, settings: Mapping[str, Any], prompt: str | None) -> None:
        self._settings, self._prompt = read_settings(settings), prompt

    @cached_property
    def _model(self) -> LocalModel:
        return load_local_model(self._settings, self._prompt)

    def describe(self) -> Mapping[str, Any]:
        """As TextEncoder.description. Raises BulkError."""
        return self._model.description

    def embed(self, texts: Sequence[str], fingerprint: str) -> tuple[Floats, Mapping[int, str]]:
        """As TextEncoder.embed. Raises BulkError if the model is not the one of the fingerprint."""
        if self._model.embedder.fingerprint != fingerprint:
            node = ray.get_runtime_context().get_node_id()
            raise BulkError(f"the node {node} has another model or precision than the first one")
        return self._model.embed(texts, lambda _: None)


@dataclass(eq=False)
class Actor:
    """A ModelActor as a Worker, which starts another one when it has died."""

    number: int
    resources: Resources
    settings: Mapping[str, Any]
    prompt: str | None
    in_flight: int = 0
    fingerprint: str = ""
    _calls: dict["Future[Any]", Any] = field(default_factory=dict)  # and the handle of each
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
        except RayError as error:  # with the actor, or its result alone with a node
            if (
                isinstance(error, _ACTOR_DIED) and handle is self.handle
            ):  # else it has been replaced
                self._suspect = self._computed_by(handle)
                self._start()
            kind = WorkerDied if future is self._suspect else WorkerFailed
            raise kind(f"the actor {self.number} has failed: {error}") from None
        finally:
            del self._calls[future]
        return vectors, rejected

    def note_success(self) -> None: ...
    def note_failure(self) -> None: ...

    def _computed_by(self, handle: Any) -> "Future[Any] | None":
        """The call that an actor computed when it died; None if it was loading the model."""
        if self._loaded.exception() is not None:
            return None
        calls = [call for call, of in self._calls.items() if of is handle]
        return next((c for c in calls if not c.done() or c.exception() is not None), None)


@dataclass(frozen=True)
class Actors:
    """A TextEncoder of actors, of which the first has loaded the model."""

    actors: Sequence[Actor]
    description: Mapping[str, Any]

    @property
    def dim(self) -> int:
        return int(self.description["dimension"])

    def embed(self, texts: Sequence[str], advance: Advance) -> tuple[Floats, Mapping[int, str]]:
        return Dispatcher(self.actors, self.dim, _TEXTS, _FAILURE_TIMEOUT).embed(texts, advance)


@contextmanager
def connect(
    address: str,
    settings: Mapping[str, Any],
    prompt: str | None,
    actors: int | None = None,
    cpus: int | None = None,
) -> Iterator[Actors]:
    """Connect to a cluster, and start its actors. Raises BulkError.

    address: LOCAL, or one that ray.init takes. settings: of the model. prompt: None for the
    model's. actors, cpus: see plan_actors.
    """
    _init(address)
    try:
        on_cpus = settings.get("device") == "cpu"
        first, *others = plan_actors(ray.nodes(), actors, cpus, on_cpus)  # type: ignore[no-untyped-call]
        running = [Actor(1, first, settings, prompt)]
        try:
            description = ray.get(running[0].description_ref, timeout=_FAILURE_TIMEOUT)
        except GetTimeoutError:
            raise BulkError(
                f"no actor has loaded the model in {_FAILURE_TIMEOUT:.0f} s: `ray status` shows "
                f"whether the cluster has {first.cpus} processors and {first.gpus} GPUs free"
            ) from None
        except RayError as error:
            raise _bulk_error(error) from None
        # `auto` may choose another precision on another processor.
        pinned = {**settings, "dtype": description["precision"]}
        running += [Actor(number, each, pinned, prompt) for number, each in enumerate(others, 2)]
        for actor in running:
            actor.settings, actor.fingerprint = pinned, description["fingerprint"]
        yield Actors(running, description)
    finally:
        ray.shutdown()


def _init(address: str) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here
    host, _, port = address.rpartition(":")
    dashboard = False if address == LOCAL else None
    try:
        if host:  # ray.init would wait for minutes
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address, logging_level=logging.ERROR, include_dashboard=dashboard)
    except (OSError, RuntimeError, ValueError) as error:
        raise BulkError(f"no Ray cluster at {address}: {error}") from None


def _bulk_error(error: RayError) -> BulkError:
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BulkError) else BulkError(str(error))
