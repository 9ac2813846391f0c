"""The settings of an actor of a Ray cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

import ray
from pydantic import ValidationError

from embedwell.cli.options import read_variables
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError


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
