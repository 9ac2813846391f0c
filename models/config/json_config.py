"""A JSON file of a model's folder, asked key by key."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from models.config import config_types
from models.errors import ModelError

T = TypeVar("T")


class Raw:
    """A JSON file, asked key by key.

    Raises ModelError that names what is missing, unknown or of another kind than its key wants.
    """

    def __init__(self, path: Path, content: Any = None, prefix: str = "") -> None:
        """content: by default all that the file says. prefix: the keys that lead to it, 'a.b.'."""
        self.path, self._prefix = path, prefix
        self._values = read_object(path) if content is None else _object(path, content)

    @classmethod
    def optional(cls, path: Path) -> "Raw":
        """A file that need not be there, and then says nothing."""
        return cls(path, None if path.exists() else {})

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise ModelError(f"{self.path} has no {self._prefix + key!r}")
        return self._fitting(key, self._values[key])

    def nested(self, key: str) -> "Raw":
        """The options under a key; none where it is missing or null."""
        return Raw(self.path, self.get(key, {}), f"{self._prefix}{key}.")

    def over(self, others: Mapping[str, Any]) -> "Raw":
        """These options, and others where a key is missing here."""
        return Raw(self.path, {**others, **self._values}, self._prefix)

    def without(self, key: str) -> "Raw":
        """These options but for one."""
        kept = {name: value for name, value in self._values.items() if name != key}
        return Raw(self.path, kept, self._prefix)

    def within(self, key: str, allowed: Collection[str]) -> "Raw":
        """The same; raises ModelError for one that is not allowed."""
        found = self.nested(key)
        for name, value in self.get(key, {}).items():
            if name not in allowed:
                raise found.refusal(name, value, sorted(allowed))
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or the default where it is missing or null; of the default's type."""
        value = self._values.get(key)
        return default if value is None else self._fitting(key, value, default)

    def nullable(self, key: str, default: Any) -> Any:
        """The value, which may be null, or the default where it is missing."""
        return None if key in self and self._values[key] is None else self.get(key, default)

    def either(self, *names: str) -> Any:
        """The value of a key that has several names."""
        return self[next((name for name in names if name in self), names[0])]

    def among(self, key: str, choices: Mapping[str, T], default: str | None = None) -> T:
        """What stands for the value; raises ModelError for one that nothing stands for.

        default: the value where it is missing or null; by default it must be there.
        """
        found = self[key] if default is None else self.get(key, default)
        if found not in choices:
            raise self.refusal(key, found, sorted(choices))
        return choices[found]

    def only(self, key: str, *allowed: Any) -> Any:
        """The value, by default the first allowed one; raises ModelError for any other."""
        found = self._values.get(key)
        value = allowed[0] if found is None else found
        if value not in allowed:
            raise self.refusal(key, value, allowed)
        return value

    def _fitting(self, key: str, value: Any, default: Any = None) -> Any:
        kind = config_types.kind(key, default)
        if kind is not None and not kind.fits(value):
            raise ModelError(f"{self.path}: {self._prefix}{key} = {value!r} is not {kind.name}")
        return value

    def refusal(self, key: str, value: Any, allowed: Any) -> ModelError:
        """The error for a value that is not implemented."""
        said = f"{self.path}: {self._prefix}{key} = {value!r}"
        return ModelError(f"{said} is not supported; supported: {allowed}")


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises ModelError that names it when it is missing or cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: not a model folder") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from None


def read_object(path: Path) -> dict[str, Any]:
    """The same of a file that must hold an object."""
    return _object(path, read_json(path))


def _object(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON object")
    return content
