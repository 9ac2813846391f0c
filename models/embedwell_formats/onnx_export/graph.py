"""ONNX files: the nodes and the initialisers of their graph.

Messages: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
Encoding: https://protobuf.dev/programming-guides/encoding/
"""

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path

from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

KINDS = {1: ("F32", "<f4"), 10: ("F16", "<f2"), 11: ("F64", "<f8"), 16: ("BF16", "<u2")}
"""Number of a type of floating-point numbers -> its names in safetensors and in numpy."""

_EXTERNAL = 1  # the numbers are in another file
_MAX_FIELDS = 1 << 20  # of one message
_SCOPES = "pkg.torch.onnx.name_scopes"

Span = tuple[int, int]
"""Begin and end of bytes in a file."""


@dataclass(frozen=True)
class Initializer:
    """A constant of a graph. type: its number in onnx.proto. file: the file with its bytes."""

    name: str
    shape: tuple[int, ...]
    type: int
    file: Path
    span: Span

    @property
    def is_float(self) -> bool:
        return self.type in KINDS

    @property
    def kind(self) -> str:
        """Name of the type in safetensors."""
        return KINDS[self.type][0]

    @property
    def size(self) -> int:
        """Number of bytes that the shape implies."""
        return prod(self.shape) * int(KINDS[self.type][1][-1])


@dataclass(frozen=True)
class Node:
    """An operation. module: the torch module that it is a part of; "" if the file does not say.

    output: the first one. transposes: whether the operation itself turns its second input.
    """

    operator: str
    domain: str
    module: str
    inputs: tuple[str, ...]
    output: str
    transposes: bool


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of the file, and initialisers by name."""

    path: Path
    nodes: tuple[Node, ...]
    initializers: Mapping[str, Initializer]

    @classmethod
    def read(cls, path: Path) -> "Graph":
        """Read a file without its weights; raises ModelError for one that cannot be read."""
        other_files.refuse_pointer(path)
        try:
            state = path.stat()
            return _read(path, state.st_size, state.st_mtime_ns)
        except (OSError, ValueError) as error:  # the latter also for an empty file
            raise damaged(path, str(error)) from None

    @property
    def files(self) -> list[Path]:
        """The file, and those next to it that have its weights."""
        return sorted({self.path, *(each.file for each in self.initializers.values())})


def damaged(path: Path, reason: str) -> ModelError:
    """Build the error for a file that is not whole."""
    return ModelError(f"{path} cannot be read as ONNX: {reason}; fetch the file again")


@lru_cache(maxsize=2)  # a load asks for the graph several times
def _read(path: Path, size: int, _modified: int) -> Graph:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        graph = next(_Message(content, (0, size)).messages(7), None)
        if graph is None:
            raise ValueError("it has no graph")
        constants = [_initializer(path, message) for message in graph.messages(5)]
        nodes = tuple(_node(message) for message in graph.messages(1))
        constants += _constants(path, graph)
    return Graph(path, nodes, {constant.name: constant for constant in constants})


def _initializer(path: Path, message: "_Message") -> Initializer:
    shape, kind = tuple(message.integers(1)), sum(message.integers(2)[-1:])
    if message.integers(14) == [_EXTERNAL]:
        file, span = _external(path, message)
    else:
        file, span = path, next(iter([*message.spans(9), *message.spans(4)]), (0, 0))
    return Initializer(message.text(8), shape, kind, file, span)


def _constants(path: Path, graph: "_Message") -> Iterator[Initializer]:
    """Yield the tensors of Constant nodes, each with the name of its output."""
    for node in graph.messages(1):
        if node.text(4) == "Constant":
            values = [tensor for each in node.messages(5) for tensor in each.messages(5)]
            for value in values[:1]:
                yield replace(_initializer(path, value), name=next(iter(node.texts(2)), ""))


def _external(path: Path, message: "_Message") -> tuple[Path, Span]:
    entries = {entry.text(1): entry.text(2) for entry in message.messages(13)}
    name = entries.get("location", "")
    if not name or Path(name).name != name:
        raise ValueError(f"its weights are in {name!r}, which is not a file next to it")
    file = path.with_name(name)
    begin = int(entries.get("offset", 0))
    length = int(entries["length"]) if "length" in entries else file.stat().st_size - begin
    return file, (begin, begin + length)


def _node(message: "_Message") -> Node:
    name, scopes = message.text(3), _scopes(message)
    return Node(
        operator=message.text(4),
        domain=message.text(7),
        module=scopes[-2] if len(scopes) > 1 else _module(name),
        inputs=tuple(message.texts(1)),
        output=next(iter(message.texts(2)), ""),
        transposes=any(
            attribute.text(1) == "transB" and attribute.integers(3) == [1]
            for attribute in message.messages(5)
        ),
    )


def _scopes(message: "_Message") -> list[str]:
    # Names of the modules around a node and of its operation, as torch.export writes them.
    for entry in message.messages(9):
        if entry.text(1) == _SCOPES:
            return re.findall(r"'([^']*)'", entry.text(2))
    return []


def _module(name: str) -> str:
    # '/encoder/layer.0/output/dense/MatMul' has the names of modules, as torch.jit.trace writes
    # them: that of a part of a Sequential repeats the name of this, '/pooler/pooler.0/MatMul'.
    modules = name.split("/")[1:-1]
    pairs = zip(modules, [*modules[1:], ""], strict=False)
    return ".".join(name for name, inner in pairs if not inner.startswith(f"{name}."))


class _Message:
    """A message inside the mapped file. Methods take the number of a field."""

    def __init__(self, content: mmap.mmap, span: Span) -> None:
        self._content, self._fields = content, dict[int, list[int | Span]]()
        self._at, self._end = span
        for _ in range(_MAX_FIELDS):
            if self._at >= self._end:
                return
            key = self._varint()
            self._fields.setdefault(key >> 3, []).append(self._value(key & 7))
        raise ValueError(f"a message has more than {_MAX_FIELDS} fields")

    def _value(self, wire_type: int) -> int | Span:
        if wire_type == 0:
            return self._varint()
        size = self._varint() if wire_type == 2 else {1: 8, 5: 4}.get(wire_type, -1)
        begin, self._at = self._at, self._at + size
        if size < 0 or self._at > self._end:
            raise ValueError("a field is not whole")
        return begin, self._at

    def _varint(self) -> int:
        value = 0
        for index, byte in enumerate(self._content[self._at : min(self._at + 10, self._end)]):
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                self._at += index + 1
                return value
        raise ValueError("a number is not whole")

    def spans(self, field: int) -> list[Span]:
        """Return the places of texts, bytes and messages; raises ValueError for numbers."""
        values = self._fields.get(field, [])
        spans = [value for value in values if isinstance(value, tuple)]
        if len(spans) < len(values):
            raise ValueError(f"field {field} has a wrong type")
        return spans

    def integers(self, field: int) -> list[int]:
        """Return numbers, which may be packed."""
        values: list[int] = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                values.append(value)
                continue
            self._at, self._end = value
            while self._at < self._end:
                values.append(self._varint())
        return values

    def messages(self, field: int) -> Iterator["_Message"]:
        """Yield the messages of a field."""
        return (_Message(self._content, span) for span in self.spans(field))

    def texts(self, field: int) -> list[str]:
        """Return texts; raises ValueError for one that is not UTF-8."""
        return [self._content[begin:end].decode() for begin, end in self.spans(field)]

    def text(self, field: int) -> str:
        """Return the text of a field that occurs once; "" if it does not occur."""
        return "".join(self.texts(field)[-1:])
