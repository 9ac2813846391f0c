"""GGUF files: their metadata, and their tensors as they are stored.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from embedwell_formats.gguf.blocks import BLOCK_TYPES, BlockMatrix, Bytes
from embedwell_models.checkpoint.tables import Stored
from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

T = TypeVar("T")
MAGIC = b"GGUF"
LAST_TOKEN = 3
"""Value of `pooling_type` for the last token."""

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
_VERSIONS = (2, 3)
_FLOAT32, _STRING, _ARRAY = 6, 8, 9
_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""Number of a type of values -> code of `struct`."""
_PLAIN = {0: ("F32", "<f4"), 1: ("F16", "<f2"), 28: ("F64", "<f8"), 30: ("BF16", "<u2")}
_BLOCKS = {
    **{2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K"},
    **{12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 23: "IQ4_XS"},
}
_UNREAD = {
    **{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S"},
    **{21: "IQ3_S", 22: "IQ2_S", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 29: "IQ1_M"},
    **{34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0"},
}
_TOKENIZER = "tokenizer.ggml."
SUPPORTED = (*(name for name, _ in _PLAIN.values()), *BLOCK_TYPES)
"""Types of tensors that are read."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor. file: its file. kind: its type. start, stop: place of its bytes in the file."""

    file: Path
    shape: tuple[int, ...]
    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class GgufFile:
    """Metadata and tensors of a model in one file or several, by llama.cpp's names.

    path: the first file, which has the metadata. further_parts: the other files.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]
    further_parts: Sequence[Path] = ()

    @classmethod
    def read(cls, path: Path) -> "GgufFile":
        """Read the header of a file, and of the further parts of its model.

        Raises ModelError for a file that cannot be read, for a part that is missing or not the
        first, and for a tensor of a type that is not read.
        """
        first = _read(path)
        further = _further_parts(path, first.metadata)
        tensors = dict(first.tensors)
        for part in further:
            tensors |= _read(part).tensors
        return cls(path, first.metadata, tensors, further)

    def arrays(self) -> Iterator[tuple[str, Stored]]:
        """Map the files into memory, and yield the name of each tensor with its numbers.

        bfloat16 becomes unsigned integers. The pages are shared until they are written; a file
        never changes.
        """
        map_once = cache(_mapped_copy)
        for name, info in self.tensors.items():
            yield name, _stored(info, map_once(info.file)[info.start : info.stop])


class Metadata:
    """Values of a file by their keys; those of its architecture without their prefix.

    Raises ModelError for a missing key and a value of the wrong type; the message names both.
    """

    def __init__(self, file: GgufFile) -> None:
        """Raise ModelError for an adapter."""
        self.file, self._values = file, file.metadata
        self.architecture = str(self._values.get("general.architecture", ""))
        self.warnings: list[str] = []
        kind = self._values.get("general.type", "model")
        if kind != "model":
            raise ModelError(f"{file.path} is a GGUF file of the type {kind!r}, not a model")

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self.file.tensors

    def is_named(self, name: str) -> bool:
        """Whether the file names a model, with any capitals and punctuation."""
        names = (str(self._values.get(f"general.{key}", "")) for key in ("name", "basename"))
        wanted, *stated = (re.sub("[^a-z0-9]", "", each.lower()) for each in (name, *names))
        return any(wanted in each for each in stated)

    def warn(self, message: str) -> None:
        """Note a difference between the file and the original model, of which the log warns."""
        self.warnings.append(f"{self.file.path}: {message}")

    def size(self, key: str, default: int | None = None) -> int:
        """Return a whole number of the architecture, 1 or more.

        Without a default it is required.
        """
        name = self._of_architecture(key)
        if default is not None and name not in self._values:
            return default
        size = self._required(name, int)
        if size < 1:
            raise ModelError(f"{self.file.path}: {name} = {size}, but it must be 1 or more")
        return size

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
            raise ModelError(
                f"{self.file.path}: {_TOKENIZER}{key} is not a list of {kind.__name__}"
            )
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


def first_part(paths: Sequence[Path]) -> Path | None:
    """Return the first of the files of one model in parts; None for other files."""
    matches = [_PART.fullmatch(path.name) for path in paths]
    models = {(match[1], match[3]) if match else None for match in matches}
    return min(paths) if len(models) == 1 and None not in models else None


def further_parts(path: Path) -> list[Path]:
    """Return the files of the same model after the first one, as far as the names say."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return []
    numbers = range(2, int(match[3]) + 1)
    paths = [path.with_name(f"{match[1]}-{each:05}-of-{match[3]}.gguf") for each in numbers]
    return [part for part in paths if part.is_file()]


def _further_parts(path: Path, metadata: Mapping[str, Any]) -> list[Path]:
    count = metadata.get("split.count", 0)
    if not isinstance(count, int) or count < 2:
        return []
    whole = path.resolve()
    match = _PART.fullmatch(whole.name)
    if match is None or int(match[2]) != 1 or int(match[3]) != count:
        raise ModelError(
            f"{whole} is one of {count} parts: give the first, whose name ends in "
            f"-00001-of-{count:05}.gguf"
        )
    parts = further_parts(whole)
    if len(parts) < count - 1:
        raise ModelError(f"{whole} has {len(parts) + 1} of its {count} parts in its folder")
    return parts


def _read(path: Path) -> GgufFile:
    with _mapped(path) as content:
        header = _Header(path, content)
        try:
            return header.read()
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise _damaged(path, str(error)) from None


def _mapped_copy(path: Path) -> Bytes:
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def _mapped(path: Path) -> mmap.mmap:
    other_files.refuse_pointer(path)
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # the latter for an empty file
        raise _damaged(path, str(error)) from None


def _stored(info: TensorInfo, content: Bytes) -> Stored:
    dtypes = dict(_PLAIN.values())
    if info.kind in dtypes:
        return np.require(content.view(dtypes[info.kind]).reshape(info.shape), requirements="A")
    rows = prod(info.shape[:-1])
    return BlockMatrix(content.reshape(rows, -1), BLOCK_TYPES[info.kind])


@dataclass(frozen=True)
class _Info:
    # A tensor as the header describes it. offset: from the end of the header.
    name: str
    shape: tuple[int, ...]
    type_number: int
    offset: int


class _Header:
    # Values are read one after another; each read moves `_at`.
    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self._path, self._content, self._at = path, content, 0

    def read(self) -> GgufFile:
        if self._content[:4] != MAGIC:
            raise _damaged(self._path, "it does not begin with GGUF")
        self._at = 4
        version = self._scalar("I")
        if version not in _VERSIONS:
            raise ModelError(f"{self._path} is GGUF version {version}; supported: {_VERSIONS}")
        tensors, values = self._scalar("Q"), self._scalar("Q")
        metadata = dict(self._pair() for _ in range(values))
        infos = [self._info() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"general.alignment = {alignment!r}")
        start = -(-self._at // alignment) * alignment
        placed = {info.name: self._placed(start, info) for info in infos}
        return GgufFile(self._path, metadata, placed)

    def _pair(self) -> tuple[str, Any]:
        return self._string(), self._value(self._scalar("I"))

    def _info(self) -> "_Info":
        name, axes = self._string(), self._scalar("I")
        shape = tuple(self._scalar("Q") for _ in range(axes))[::-1]  # its first axis is the last
        return _Info(name, shape, self._scalar("I"), self._scalar("Q"))

    def _placed(self, start: int, info: "_Info") -> TensorInfo:
        kind, numbers, size = self._type(info)
        begin = start + info.offset
        end = begin + prod(info.shape) // numbers * size
        if not info.shape or info.shape[-1] % numbers or end > len(self._content):
            raise _damaged(self._path, f"{info.name} is not whole")
        return TensorInfo(self._path, info.shape, kind, begin, end)

    def _type(self, info: "_Info") -> tuple[str, int, int]:
        # Name of a type, and numbers and bytes of a block.
        if plain := _PLAIN.get(info.type_number):
            return plain[0], 1, np.dtype(plain[1]).itemsize
        if kind := _BLOCKS.get(info.type_number):
            return kind, BLOCK_TYPES[kind].numbers, BLOCK_TYPES[kind].size
        named = _UNREAD.get(info.type_number, info.type_number)
        raise ModelError(
            f"{self._path}: {info.name} is of type {named}, which is not read; supported: "
            f"{', '.join(SUPPORTED)}"
        )

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array(self._scalar("I"), self._scalar("Q"))
        if kind not in _SCALARS:
            raise ValueError(f"values of type {kind}")
        value = self._scalar(_SCALARS[kind])
        # The shortest decimal number: 1e-12, not 9.999999960041972e-13.
        return float(str(np.float32(value))) if kind == _FLOAT32 else value

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind in _SCALARS:
            code = f"<{count}{_SCALARS[kind]}"
            values = struct.unpack_from(code, self._content, self._at)
            self._at += struct.calcsize(code)
            return [*values]
        if kind != _STRING:
            raise ValueError(f"lists of type {kind}")
        return [self._string() for _ in range(count)]

    def _string(self) -> str:
        size = self._scalar("Q")
        begin, self._at = self._at, self._at + size
        if self._at > len(self._content):
            raise ValueError("it ends in a string")
        return self._content[begin : self._at].decode()

    def _scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._content, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(f"{path} cannot be read as GGUF: {reason}; fetch the file again")
