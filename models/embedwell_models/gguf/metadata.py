"""Validated access to the metadata of a GGUF file."""

from collections.abc import Mapping
from typing import Any, TypeVar

from embedwell_models.errors import ModelError
from embedwell_models.gguf.file import GgufFile, TensorInfo

T = TypeVar("T")
_TOKENIZER = "tokenizer.ggml."


class Metadata:
    """Values of a file by their keys; those of its architecture without their prefix.

    Raises ModelError for a missing key and a value of the wrong type; the message names both.
    """

    def __init__(self, file: GgufFile) -> None:
        """Raise ModelError for a file that is a part of a model, or an adapter."""
        self.file, self._values = file, file.metadata
        self.architecture = str(self._values.get("general.architecture", ""))
        parts = self._values.get("split.count", 0)
        if isinstance(parts, int) and parts > 1:
            raise ModelError(
                f"{file.path} is one of {parts} parts: join them with `llama-gguf-split --merge`"
            )
        kind = self._values.get("general.type", "model")
        if kind != "model":
            raise ModelError(f"{file.path} is a GGUF file of the type {kind!r}, not a model")

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self.file.tensors

    def size(self, key: str) -> int:
        """Return a whole number of the architecture."""
        return self._required(self._of_architecture(key), int)

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number of the architecture; without a default it is required."""
        name = self._of_architecture(key)
        if default is not None and name not in self._values:
            return default
        return float(self._required(name, float, int))

    def optional(self, key: str, default: T) -> T:
        """Return a value of the architecture, which has the default's type."""
        return self._optional(self._of_architecture(key), default)

    def tokenizer(self, key: str, default: T) -> T:
        """Return a value of the tokenizer, which has the default's type."""
        return self._optional(_TOKENIZER + key, default)

    def token_list(self, key: str, kind: type[T]) -> list[T]:
        """Return a list of the tokenizer, whose values have a type."""
        values = self._required(_TOKENIZER + key, list)
        if not all(isinstance(value, kind) for value in values):
            raise ModelError(f"{self.file.path}: {_TOKENIZER}{key} is no list of {kind.__name__}")
        return values

    def of_tokens(self, key: str, kind: type[T]) -> list[T]:
        """Return a list of the tokenizer that has a value for each token."""
        values, count = self.token_list(key, kind), len(self.token_list("tokens", str))
        if len(values) != count:
            raise ModelError(
                f"{self.file.path}: {_TOKENIZER}{key} has {len(values)} values for {count} tokens"
            )
        return values

    def has_tokenizer(self, key: str) -> bool:
        """Whether the file has a value of the tokenizer."""
        return _TOKENIZER + key in self._values

    def rows(self, tensor: str) -> int:
        """Return the number of rows of a tensor."""
        if tensor not in self.tensors:
            raise ModelError(f"{self.file.path} lacks the tensor {tensor}")
        return self.tensors[tensor].shape[0]

    def unsupported(self, key: str, value: Any, supported: Any) -> ModelError:
        """Build the error for a value that is not supported."""
        option = f"{self.file.path}: {key} = {value!r}"
        return ModelError(f"{option} is not supported; supported: {supported}")

    def _of_architecture(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def _optional(self, name: str, default: T) -> T:
        return self._required(name, type(default)) if name in self._values else default

    def _required(self, name: str, *kinds: type[T]) -> T:
        value = self._values.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            reason = "is missing" if value is None else f"= {value!r} is not {kinds[0].__name__}"
            raise ModelError(f"{self.file.path}: {name} {reason}")
        return value
