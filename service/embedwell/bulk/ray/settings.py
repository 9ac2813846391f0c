"""Settings of an actor's model."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from embedwell.bulk.errors import BulkError
from embedwell.settings.settings import Settings


def read_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings of an actor, besides those of its environment. Raises BulkError."""
    try:
        check_names(values)
        return Settings(**values)
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
