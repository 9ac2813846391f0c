"""Small ONNX files as PyTorch's exporters lay them out, written without their packages.

Messages: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
External = Mapping[str, str | int]
_TYPES = {"<f4": FLOAT, "<f2": FLOAT16, "<u2": BFLOAT16, "<i8": 7}


def varint(value: int) -> bytes:
    """Encode an unsigned number."""
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    """Encode a field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, numbers: Numbers, external: External | None = None, raw: int = 9) -> bytes:
    """Encode an initialiser. external: place of its bytes in another file. raw: their field."""
    data = field(raw, numbers.tobytes())
    if external:
        pairs = [field(1, key) + field(2, str(value)) for key, value in external.items()]
        data = b"".join(field(13, pair) for pair in pairs) + field(14, 1)
    shape = b"".join(field(1, size) for size in numbers.shape)
    return shape + field(2, _TYPES[numbers.dtype.str]) + field(8, name) + data


def node(  # noqa: PLR0913 - the fields of the message
    operator: str,
    inputs: Sequence[str],
    output: str = "",
    *,
    name: str = "",
    domain: str = "",
    module: str = "",
    transposes: bool = False,
) -> bytes:
    """Encode a node. module: as torch.export states it in the metadata."""
    data = b"".join(field(1, each) for each in inputs) + field(2, output or f"{name}_output_0")
    data += field(3, name) + field(4, operator) + field(7, domain)
    if transposes:
        data += field(5, field(1, "transB") + field(3, 1) + field(20, 2))
    if module:
        scopes = field(1, "pkg.torch.onnx.name_scopes") + field(2, f"['', '{module}', 'linear']")
        data += field(9, scopes)
    return data


def constant(name: str, numbers: Numbers) -> bytes:
    """Encode a node whose output is a tensor."""
    value = field(1, "value") + field(5, tensor("", numbers)) + field(20, 4)
    return field(2, name) + field(4, "Constant") + field(5, value)


def write(path: Path, nodes: Sequence[bytes], tensors: Sequence[bytes]) -> Path:
    """Write a file with a graph; return its path."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "main_graph")
    graph += b"".join(field(5, each) for each in tensors)
    path.write_bytes(field(1, 8) + field(2, "pytorch") + field(7, graph) + field(8, field(2, 17)))
    return path


def write_traced(path: Path, weights: Mapping[str, Numbers], external: str = "") -> Path:
    """Write a checkpoint as torch.jit.trace leaves it; return the path.

    Matrices of layers are turned and numbered; nodes have the names of the modules. external: name
    of the file of the numbers; "" for those in the file itself.
    """
    path.parent.mkdir(exist_ok=True)
    nodes, tensors, data = [], [], bytearray()
    for number, (name, numbers) in enumerate(weights.items()):
        stem = name.rpartition(".")[0]
        stored, given = name, numbers
        if numbers.ndim == 2 and "embeddings" not in name:
            scope = f"/{stem.replace('.', '/').replace('layer/', 'layer.')}"
            stored, given = f"onnx::MatMul_{number}", np.ascontiguousarray(numbers.T)
            nodes.append(node("MatMul", ["x", stored], name=f"{scope}/MatMul"))
            nodes.append(node("Add", [f"{stem}.bias", f"{scope}/MatMul_output_0"], f"{scope}/Add"))
        place_of_data: External = {
            "location": external,
            "offset": len(data),
            "length": given.nbytes,
        }
        tensors.append(tensor(stored, given, place_of_data if external else None))
        if external:
            data += given.tobytes() + bytes(-given.nbytes % 4096)
    if external:
        path.with_name(external).write_bytes(data)
    return write(path, nodes, tensors)
