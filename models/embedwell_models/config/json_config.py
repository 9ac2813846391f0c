"""Validated access to the JSON files of a model folder."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from embedwell_models.config import config_types, other_files
from embedwell_models.errors import ModelError

T = TypeVar("T")


class JsonConfig:
    """Options of a JSON file, each validated when it is read.

    Raises ModelError for a missing key, an unknown key and a value of the wrong type; the message
    names file and key.
    """

    def __init__(
        self, path: Path, content: Any = None, prefix: str = "", read: set[str] | None = None
    ) -> None:
        """content: options, by default the file's. prefix: the keys above them, such as 'a.b.'.

        read: where to note the keys that are read, with the keys above them; an object that is read
        key by key is noted with a point at its end.
        """
        self.path, self._prefix = path, prefix
        self._values = read_object(path) if content is None else _object(path, content)
        self._read = set[str]() if read is None else read

    @classmethod
    def optional(cls, path: Path) -> "JsonConfig":
        """Read a file; a missing file has no options."""
        return cls(path, None if path.exists() else {})

    def __contains__(self, key: str) -> bool:
        self._read.add(self._prefix + key)
        return key in self._values

    @property
    def unread(self) -> set[str]:
        """Keys that were not read yet and are not null, such as 'a' and 'b.c'."""
        unread = set[str]()
        for key, value in self._values.items():
            name = self._prefix + key
            if isinstance(value, dict) and f"{name}." in self._read:
                unread |= JsonConfig(self.path, value, f"{name}.", self._read).unread
            elif value is not None and name not in self._read:
                unread.add(name)
        return unread

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise ModelError(f"{self.path} has no {self._prefix + key!r}")
        return self._checked(key, self._values[key])

    def nested(self, key: str) -> "JsonConfig":
        """Return the options under a key; no options if the key is missing or null."""
        prefix = f"{self._prefix}{key}."
        self._read.add(prefix)
        return JsonConfig(self.path, self.get(key, {}), prefix, self._read)

    def with_defaults(self, defaults: Mapping[str, Any]) -> "JsonConfig":
        """Return these options with defaults for missing keys."""
        return JsonConfig(self.path, {**defaults, **self._values}, self._prefix, self._read)

    def with_values(self, values: Mapping[str, Any]) -> "JsonConfig":
        """Return these options with some values replaced."""
        return JsonConfig(self.path, {**self._values, **values}, self._prefix, self._read)

    def without(self, key: str) -> "JsonConfig":
        """Return these options without a key."""
        remaining = {name: value for name, value in self._values.items() if name != key}
        return JsonConfig(self.path, remaining, self._prefix, self._read)

    def nested_only(self, key: str, allowed: Collection[str]) -> "JsonConfig":
        """Return the options under a key; raises ModelError for an option that is not allowed."""
        options = self.nested(key)
        for name, value in self.get(key, {}).items():
            if name not in allowed:
                raise options.unsupported(name, value, sorted(allowed))
        return options

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, which has the default's type; the default if it is missing or null."""
        self._read.add(self._prefix + key)
        value = self._values.get(key)
        return default if value is None else self._checked(key, value, default)

    def nullable(self, key: str, default: Any) -> Any:
        """Return the value, None if it is null; the default if it is missing."""
        return None if key in self and self._values[key] is None else self.get(key, default)

    def first_of(self, *names: str) -> Any:
        """Return the value of the first key that is present; raises ModelError if none is."""
        return self[next((name for name in names if name in self), names[0])]

    def choice(self, key: str, choices: Mapping[str, T], default: str | None = None) -> T:
        """Map the value through `choices`; raises ModelError for another value.

        default: the value if the key is missing or null; without a default the key is required.
        """
        value = self[key] if default is None else self.get(key, default)
        if value not in choices:
            raise self.unsupported(key, value, sorted(choices))
        return choices[value]

    def require(self, key: str, *allowed: Any) -> Any:
        """Return an allowed value, by default the first; raises ModelError for any other value."""
        self._read.add(self._prefix + key)
        value = self._values.get(key)
        value = allowed[0] if value is None else value
        if value not in allowed:
            raise self.unsupported(key, value, allowed)
        return value

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise ModelError for a key that is not known, unless its value is null."""
        for key, value in self._values.items():
            if key not in known and value is not None:
                raise ModelError(
                    f"{self.path}: {self._prefix}{key} = {value!r} is not known, and may change "
                    "vectors. Remove the key if it changes nothing"
                )

    def _checked(self, key: str, value: Any, default: Any = None) -> Any:
        kind = config_types.kind(key, default)
        if kind is not None and not kind.fits(value):
            raise ModelError(f"{self.path}: {self._prefix}{key} = {value!r} is not {kind.name}")
        return value

    def unsupported(self, key: str, value: Any, allowed: Any) -> ModelError:
        """Build the error for a value that is not supported."""
        option = f"{self.path}: {self._prefix}{key} = {value!r}"
        return ModelError(f"{option} is not supported; supported: {allowed}")


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises ModelError if it is missing or cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: {_not_a_model(path.parent)}") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        problem = other_files.json_problem(path) or f"is not valid JSON: {error}"
        raise ModelError(f"{path} {problem}") from None


def _not_a_model(folder: Path) -> str:
    hint = other_files.folders_inside(folder) or other_files.other_formats(folder)
    return "; ".join(filter(None, ["not a model folder", hint]))


def read_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that must hold an object; raises ModelError."""
    return _object(path, read_json(path))


def _object(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ModelError(f"{path} is not a JSON object")
    return content
