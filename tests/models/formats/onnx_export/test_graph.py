"""Damaged ONNX files are refused by name, and never end in another error."""

from pathlib import Path

import numpy as np
import pytest

from embedwell_formats.onnx_export.graph import Graph
from embedwell_formats.onnx_export.tensors import OnnxWeights, sources
from embedwell_models.checkpoint.tables import decoded
from embedwell_models.errors import ModelError
from tests.models.hub_server import POINTER
from tests.models.onnx_files import field, node, tensor, varint, write

MATRIX = np.arange(6, dtype="<f4").reshape(2, 3)
NODES = [
    node("MatMul", ["x", "w"], name="/query/MatMul"),
    node("Gemm", ["x", "v", "pooler.bias"], module="pooler", transposes=True),
]
CONSTANTS = [tensor("w", MATRIX), tensor("v", MATRIX), tensor("pooler.bias", MATRIX[0])]


def read(path: Path) -> None:
    for _, stored in OnnxWeights(path).tensors():
        decoded(stored.array)


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.onnx", NODES, CONSTANTS).read_bytes()
    read(tmp_path / "whole.onnx")
    end_of_graph = whole.rindex(field(8, field(2, 17)))
    for size in range(end_of_graph):
        path = tmp_path / f"{size}.onnx"
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError, match=rf"{size}\.onnx cannot be read as ONNX: .+; fetch"):
            read(path)


def test_changed_bytes_end_in_no_other_error(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.onnx", NODES, CONSTANTS).read_bytes()
    random = np.random.default_rng(1)
    refused = 0
    for number in range(1000):
        content = np.frombuffer(whole, np.uint8).copy()
        content[random.integers(len(content), size=3)] = random.integers(256, size=3)
        path = tmp_path / f"{number}.onnx"
        path.write_bytes(content.tobytes())
        try:
            read(path)
        except ModelError:
            refused += 1
    assert 100 < refused < 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (field(8, b""), "it has no graph"),
        (b"\xff" * 30, "a number is not whole"),
        (varint(7 << 3 | 2) + varint(1 << 62), "a field is not whole"),
        (varint(7 << 3 | 3), "a field is not whole"),
        (field(7, 5), "field 7 has a wrong type"),
        (field(7, field(5, field(8, b"\xff"))), "codec can't decode"),
        (field(7, b"\x10\x00" * ((1 << 20) + 1)), "a message has more than 1048576 fields"),
        (POINTER.encode(), "is a Git LFS pointer"),
    ],
)
def test_another_file_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=message):
        Graph.read(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("shape", "count"), [((2, 4), 6), ((1 << 62, 1 << 62), 6), ((0, 1 << 63), 0)]
)
def test_a_shape_of_other_bytes_is_refused(
    tmp_path: Path, shape: tuple[int, ...], count: int
) -> None:
    wrong = b"".join(field(1, size) for size in shape)
    constant = wrong + field(2, 1) + field(8, "norm.weight") + field(9, bytes(4 * count))
    path = write(tmp_path / "model.onnx", [], [constant])
    with pytest.raises(ModelError, match=r"norm\.weight is not whole"):
        read(path)


@pytest.mark.parametrize("inputs", [[], ["w"], ["x", "w", "norm.bias", "y"]])
@pytest.mark.parametrize("operator", ["Add", "Gather", "Gemm", "Identity", "MatMul"])
def test_nodes_may_have_any_number_of_inputs_and_no_outputs(
    tmp_path: Path, operator: str, inputs: list[str]
) -> None:
    bare = b"".join(field(1, each) for each in inputs) + field(4, operator)
    constants = [tensor("norm.bias", MATRIX[0]), tensor("w", MATRIX)]
    path = write(tmp_path / "model.onnx", [bare], constants)
    assert "norm.bias" in sources(path)


def test_packed_shapes_are_read(tmp_path: Path) -> None:
    shape = field(1, varint(2) + varint(3))
    constant = shape + field(2, 1) + field(8, "norm.weight") + field(9, MATRIX.tobytes())
    path = write(tmp_path / "model.onnx", [], [constant])
    ((_, stored),) = OnnxWeights(path).tensors()
    np.testing.assert_array_equal(decoded(stored.array), MATRIX)


def test_numbers_in_a_file_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "model.onnx_data").write_bytes(bytes(8) + MATRIX.tobytes())
    constant = tensor("a.weight", MATRIX, {"location": "model.onnx_data", "offset": 8})
    path = write(tmp_path / "model.onnx", [], [constant, tensor("b.weight", MATRIX)])
    stored = dict(OnnxWeights(path).tensors())
    np.testing.assert_array_equal(decoded(stored["a.weight"].array), MATRIX)
    assert Graph.read(path).files == [path, tmp_path / "model.onnx_data"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"location": "../secret"}, "'../secret', which is not a file next to it"),
        ({"location": "/etc/passwd"}, "'/etc/passwd', which is not a file next to it"),
        ({"offset": 0}, "'', which is not a file next to it"),
        ({"location": "data", "offset": 8, "length": 24}, r"data cannot be read as ONNX: a.weight"),
        ({"location": "data", "length": 20}, r"data cannot be read as ONNX: a.weight is not whole"),
        ({"location": "data", "offset": -4, "length": 24}, "a.weight is not whole"),
        ({"location": "data", "offset": "x"}, "invalid literal"),
        ({"location": "missing", "length": 24}, r"missing cannot be read as ONNX: .*No such file"),
        ({"location": "empty", "length": 24}, r"empty cannot be read as ONNX"),
    ],
)
def test_numbers_that_are_not_in_a_file_next_to_it_are_refused(
    tmp_path: Path, entry: dict[str, str | int], message: str
) -> None:
    (tmp_path / "secret").write_bytes(MATRIX.tobytes())
    (tmp_path / "model").mkdir()
    (tmp_path / "model/data").write_bytes(MATRIX.tobytes())
    (tmp_path / "model/empty").touch()
    path = write(tmp_path / "model/model.onnx", [], [tensor("a.weight", MATRIX, entry)])
    with pytest.raises(ModelError, match=message):
        read(path)
