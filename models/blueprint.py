"""What a checkpoint's config.json says: the encoder's shape, and where the files keep its parts."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from models import values
from models.config import EncoderConfig
from models.errors import ModelError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """An encoder's shape, and how its family lays out a checkpoint.

    tensors: name in the file ('{}' is the layer number) -> our name, or several with '|' between
    them for equal parts of the rows.
    unused: names in the file that inference does not need ('*' matches the rest of the name).
    prefixes: what checkpoints saved with a task head put before every name.
    absent: our names that the table would lead to expect, and that this checkpoint does not have.
    by_head: a fused query, key and value are those of each head in turn.
    transposed: our names, without a layer, of matrices that lie (in, out).
    norm_shift: what the file leaves out of every normalisation's weight.
    """

    config: EncoderConfig
    tensors: Mapping[str, str]
    unused: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    absent: frozenset[str] = frozenset()
    by_head: bool = False
    transposed: tuple[str, ...] = ()
    norm_shift: float = 0.0

    def expected(self) -> set[str]:
        """Our names of all the tensors that the encoder needs."""
        layers = range(self.config.distinct_layers) or [0]  # a table alone has none
        names = [part for ours in self.tensors.values() for part in split(ours)]
        return {name.format(i) for name in names for i in layers} - self.absent

    def rename(self, name: str) -> list[str]:
        """Our names for a checkpoint's tensor, none for one that inference does not need.

        Raises ModelError for a name that the family does not have.
        """
        # Checkpoints converted from TensorFlow call the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", self._strip(name)))
        layer = re.search(r"\.(\d+)\.", f".{plain}")
        key = re.sub(r"\.\d+\.", ".{}.", f".{plain}", count=1)[1:]
        if key in self.tensors:
            number = int(layer.group(1)) if layer else 0
            return [part.format(number) for part in split(self.tensors[key])]
        if any(fnmatchcase(key, pattern) for pattern in self.unused):
            return []
        raise ModelError(f"unknown tensor {name!r} in the checkpoint")

    def _strip(self, name: str) -> str:
        found = next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")
        return name.removeprefix(found)


def split(ours: str) -> list[str]:
    """'layers.{}.query|key.weight' -> the names of its parts."""
    head, _, tail = ours.rpartition(".")
    if "|" not in head:
        return [ours]
    layer, _, parts = head.rpartition(".")
    return [f"{layer}.{part}.{tail}" for part in parts.split("|")]


def affine(theirs: str, ours: str) -> dict[str, str]:
    """The names of a product's or a norm's weight and bias."""
    return {f"{theirs}.{part}": f"{ours}.{part}" for part in ("weight", "bias")}


def linear(theirs: str, ours: str, bias: bool = False) -> dict[str, str]:
    """The names of a weight, and of its bias if it has one."""
    return affine(theirs, ours) if bias else {f"{theirs}.weight": f"{ours}.weight"}


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
        kind = values.kind(key, default)
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
