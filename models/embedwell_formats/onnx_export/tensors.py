"""Tensors of an ONNX file under the names and in the shapes of the exported checkpoint."""

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedwell_formats.onnx_export.graph import KINDS, Graph, Initializer, Node, damaged
from embedwell_models.checkpoint.formats import StoredTensor, TensorHeader
from embedwell_models.checkpoint.tables import Array, LayerMatrix, Stored, to_float32
from embedwell_models.errors import ModelError

_Bytes = npt.NDArray[np.uint8]
_PARAMETER = re.compile(r"[A-Za-z_0-9]+(\.[A-Za-z_0-9]+)+")  # the name of one in torch
_COMPUTED = re.compile(r"(.*\.)?(rotary\w*\.(\w*inv_freq|cos\w*|sin\w*)|\w+\.embed_scale)")
# The encoder in a whole model of sentence-transformers: a tensor has the first prefix or today the
# second; the operation of an unnamed one may be just inside the module 0.
_WHOLE = ("0.auto_model.", "0.model.")
_INSIDE = re.compile(r"^0\.(auto_model\.|model\.)?")
_LATER_MODULE = re.compile(r"^[1-9][0-9]*\.")
_QUANTIZED = {"DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearMatMul"}
_QUANTIZED |= {"MatMulNBits", "GatherBlockQuantized", "DynamicQuantizeMatMul"}
_FUSED_DOMAIN = "com.microsoft"
_PRODUCTS = ("MatMul", "Gemm")
_ADVICE = "give the folder of the original model, or its name on the hub"


@dataclass(frozen=True)
class TensorSource:
    """Place of a tensor's numbers in a file. transposed: whether they are stored as (in, out)."""

    numbers: Initializer
    transposed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in the checkpoint."""
        return self.numbers.shape[::-1] if self.transposed else self.numbers.shape


@dataclass(frozen=True)
class OnnxWeights:
    """Weights of a file in ONNX."""

    path: Path

    @property
    def files(self) -> list[Path]:
        """The file, and those next to it that have its weights."""
        return Graph.read(self.path).files

    def headers(self) -> Iterator[tuple[str, TensorHeader]]:
        """Yield name, shape and type of each tensor; raises ModelError as `tensors` does."""
        for name, source in sources(self.path).items():
            yield name, TensorHeader(source.shape, source.numbers.kind)

    def tensors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Map the files, and yield the name of each tensor with its numbers.

        A transposed matrix is turned whenever it is read, so that no copy stays. Raises ModelError
        for a file that cannot be read, and for a graph whose weights have no names.
        """
        map_once = cache(_mapped)
        for name, source in sources(self.path).items():
            plain = _plain(source.numbers, map_once(source.numbers.file))
            if source.transposed:
                array: Stored = _turned(name, plain)
            else:  # the numbers are at any address, but numpy's and torch's code wants whole ones
                array = np.require(plain, requirements="A")
            yield name, StoredTensor(source.numbers.kind, array)


def sources(path: Path) -> Mapping[str, TensorSource]:
    """Return the places of the tensors by name; raises ModelError as `tensors` does."""
    graph = Graph.read(path)
    _refuse_changed_graphs(graph)
    tensors: dict[str, TensorSource] = {}
    is_whole = any(name.startswith(_WHOLE) for name in graph.initializers)
    for name, source in _named(graph):
        if is_whole and _LATER_MODULE.match(name):
            continue  # in a file of its own
        inside = _INSIDE.sub("", name) if is_whole else name.removeprefix("auto_model.")
        other = tensors.setdefault(inside, source)
        if other != source and not _have_equal_numbers(other, source):
            raise ModelError(f"{path} has several matrices of {name}: {_ADVICE}")
    return tensors


def _refuse_changed_graphs(graph: Graph) -> None:
    for node in graph.nodes:
        if node.operator in _QUANTIZED:
            raise ModelError(
                f"{graph.path} is quantised ({node.operator}), which embedwell does not read: put "
                "model.onnx of the same repository, in float32 or float16, in its place"
            )
        if node.domain == _FUSED_DOMAIN:
            raise ModelError(
                f"{graph.path} was optimised for ONNX Runtime ({node.operator}), so that its "
                f"weights have no names: put the plain export in its place, or {_ADVICE}"
            )


def _named(graph: Graph) -> Iterator[tuple[str, TensorSource]]:
    for name, numbers in graph.initializers.items():
        if _is_parameter(name, numbers):
            yield name, TensorSource(numbers)
    converted = _converted(graph)
    biases = _biases_by_addend(graph, converted)
    for node in graph.nodes:
        value = _input(node, 1 if node.operator in _PRODUCTS else 0)
        value = converted.get(value, value)
        if value not in graph.initializers or not graph.initializers[value].is_float:
            continue
        numbers = graph.initializers[value]
        if node.operator in _PRODUCTS and not _is_parameter(numbers.name, numbers):
            # The exporters turn a matrix and give it a number. Its layer is a module of torch, or
            # the one whose bias is added to the product.
            bias = _input(node, 2) or biases.get(node.output, "")
            bias = converted.get(bias, bias)
            module = node.module or bias.removesuffix(".bias")
            if module and len(numbers.shape) == 2:
                yield f"{module}.weight", TensorSource(numbers, transposed=not node.transposes)
        # Equal tensors may be stored once, under the name of one of them.
        elif node.operator == "Identity" and _is_parameter(node.output, numbers):
            yield node.output, TensorSource(numbers)
        elif node.operator == "Gather" and _is_table_of_another_module(node, numbers):
            yield f"{node.module}.weight", TensorSource(numbers)


def _is_parameter(name: str, numbers: Initializer) -> bool:
    return numbers.is_float and bool(_PARAMETER.fullmatch(name) and not _COMPUTED.fullmatch(name))


def _is_table_of_another_module(node: Node, numbers: Initializer) -> bool:
    is_own = numbers.name.startswith(f"{node.module}.")
    return bool(node.module) and not is_own and _is_parameter(numbers.name, numbers)


def _input(node: Node, index: int) -> str:
    return node.inputs[index] if index < len(node.inputs) else ""


def _converted(graph: Graph) -> Mapping[str, str]:
    # Name of a tensor in another type of numbers -> that of the tensor as it is stored.
    stored: dict[str, str] = {}
    for node in graph.nodes:
        value = _input(node, 0)
        source = stored.get(value, value)
        if node.operator == "Cast" and source in graph.initializers:
            stored[node.output] = source
    return stored


def _biases_by_addend(graph: Graph, converted: Mapping[str, str]) -> Mapping[str, str]:
    # Name of a value -> name of the bias that is added to it.
    biases = {}
    for node in graph.nodes:
        if node.operator == "Add" and len(node.inputs) == 2:
            for addend, other in (node.inputs, node.inputs[::-1]):
                bias = converted.get(addend, addend)
                if bias in graph.initializers and bias.endswith(".bias"):
                    biases[other] = bias
    return biases


def _mapped(path: Path) -> _Bytes:
    try:
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    except (OSError, ValueError) as error:  # the latter for an empty file
        raise damaged(path, str(error)) from None


def _plain(numbers: Initializer, content: _Bytes) -> Array:
    begin, end = numbers.span
    if not 0 <= begin <= end <= len(content) or end - begin != numbers.size or begin == end:
        raise damaged(numbers.file, f"{numbers.name} is not whole")
    return content[begin:end].view(KINDS[numbers.type][1]).reshape(numbers.shape)


def _turned(name: str, matrix: Array) -> LayerMatrix:
    shape = (matrix.shape[1], matrix.shape[0])
    return LayerMatrix(name, shape, lambda: np.array(to_float32(matrix).T, order="C"))


def _have_equal_numbers(one: TensorSource, other: TensorSource) -> bool:
    # A layer that is used several times may have its matrix once for each use.
    a, b = (_plain(source.numbers, _mapped(source.numbers.file)) for source in (one, other))
    return one.transposed == other.transposed and np.array_equal(a, b)
