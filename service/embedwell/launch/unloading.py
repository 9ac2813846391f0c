"""Choose the models to unload: unused ones, and those whose memory another model needs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ResidentModel:
    """A model that is loaded or loading.

    weight_bytes: bytes of its weights.
    last_used: seconds of a monotonic clock.
    idle_unload: seconds without a request after which it is unloaded; 0 for never.
    may_unload: whether it is loaded on demand, ready, and computes nothing.
    """

    index: int
    weight_bytes: float
    last_used: float
    idle_unload: float
    may_unload: bool


def idle_models(loaded: Sequence[ResidentModel], now: float) -> list[int]:
    """Return the indices of the models to unload because they had no request for long enough."""
    return [
        model.index
        for model in loaded
        if model.may_unload and model.idle_unload and now - model.last_used >= model.idle_unload
    ]


def models_to_replace(
    loaded: Sequence[ResidentModel], weight_bytes: float, limit: float
) -> list[int] | None:
    """Return the indices of the models to unload before another is loaded.

    The least recently used come first. The list is empty if there is room, and None if there is no
    room at the moment, because the others are kept or compute.

    weight_bytes: bytes of the other model's weights.
    limit: maximum bytes of all weights.
    """
    excess = sum(model.weight_bytes for model in loaded) + weight_bytes - limit
    replaced = []
    for model in sorted(loaded, key=lambda model: model.last_used):
        if excess <= 0:
            break
        if model.may_unload:
            replaced.append(model.index)
            excess -= model.weight_bytes
    return None if excess > 0 else replaced
