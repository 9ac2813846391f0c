"""An actor of a Ray cluster with a model; an actor that dies is replaced."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
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

from embedwell.bulk.errors import BulkError
from embedwell.bulk.loading import load_local_model
from embedwell.bulk.local_model import LocalModel
from embedwell.bulk.ray.resources import Resources
from embedwell.bulk.ray.settings import read_settings
from embedwell.bulk.worker import WorkerDied, WorkerFailed
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
            if (
                isinstance(error, _ACTOR_DIED) and handle is self.handle
            ):  # otherwise it is replaced already
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
