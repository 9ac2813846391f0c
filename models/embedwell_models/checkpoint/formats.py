"""Formats of weights: tensors of mapped files, what opens each kind, what reads quantised layers.

Each is named as "module:function", whose module is imported for a model that needs it.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from embedwell_models.checkpoint.tables import QuantizedMatrix, Stored
from embedwell_models.config import other_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
INTEGERS = {"I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8"}
FP8 = "F8_E4M3"


@dataclass(frozen=True)
class TensorHeader:
    """Shape and type of a tensor, from the header of its file."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class StoredTensor:
    """Tensor in its mapped file, which it keeps mapped. dtype: the file's name of its type.

    array: the numbers, with those of bfloat16 and FP8 as unsigned integers; flat bytes of another
    type.
    """

    dtype: str
    array: Stored

    @property
    def is_float(self) -> bool:
        """Whether the numbers can be read as floating-point numbers."""
        return self.dtype in FLOATS or isinstance(self.array, QuantizedMatrix)

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS

    @property
    def refusal(self) -> str:
        """Message about a type without floating-point numbers."""
        return f"is of type {self.dtype}; supported: {', '.join(FLOATS)}"

    def to_float32(self) -> Floats:
        """Return the numbers as float32; no copy if the file holds float32."""
        assert self.is_float
        if isinstance(self.array, QuantizedMatrix):
            return self.array.to_float32()
        if self.dtype == "BF16":  # the upper half of a float32
            wide = self.array.astype(np.uint32)
            wide <<= 16
            return wide.view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # to infinity
            numbers: Floats = self.array.astype(np.float32, copy=False)
        return numbers


SAFETENSORS = "embedwell_models.checkpoint.safetensors_files:SafetensorsFile"
FILES: Mapping[str, str] = {
    other_files.GGUF: "embedwell_formats.gguf.original_tensors:GgufWeights",
    other_files.ONNX: "embedwell_formats.onnx_export.tensors:OnnxWeights",
}
"""Suffix of a file in another format than safetensors -> what opens it, a `WeightFile`."""

QUANTIZATIONS: Mapping[str, str] = {
    "awq": "embedwell_formats.quantized.packed_integers:Awq.read",
    "bitsandbytes": "embedwell_formats.quantized.bitsandbytes:BitsAndBytes.read",
    "compressed-tensors": "embedwell_formats.quantized.compressed_tensors:CompressedTensors.read",
    "fp8": "embedwell_formats.quantized.small_floats:BlockFp8.read",
    "gptq": "embedwell_formats.quantized.packed_integers:Gptq.read",
    "modelopt": "embedwell_formats.quantized.small_floats:ModelOpt.read",
}
"""quant_method of a config.json -> what reads its options, and returns a `Quantization`."""

GROUP = "embedwell.quantizations"
"""Entry points of other packages, with a quant_method as the name, and the same as its value."""

_KEYS = ("quantization_config", "compression_config")  # the second one in files of 2024


class WeightFile(Protocol):
    """An opened file of weights: its tensors by the names and with the values of the checkpoint."""

    @property
    def files(self) -> Sequence[Path]:
        """The file, and those next to it that have its weights."""

    def headers(self) -> Iterable[tuple[str, TensorHeader]]:
        """Return name, shape and type of each tensor; raises ModelError as `tensors` does."""

    def tensors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Map the file into memory, and yield the name of each tensor with its numbers.

        Raises ModelError for a file that cannot be read.
        """


class Quantization(Protocol):
    """Way of storing quantised weights, as several tensors for the weight of a layer."""

    def tensors(
        self, folder: Path, stored: Iterable[tuple[str, StoredTensor]]
    ) -> Iterator[tuple[str, StoredTensor]]:
        """Yield name and value of every tensor, with the parts of a quantised layer as its weight.

        folder: for messages. stored: the tensors in the files of the folder.

        Raises ModelError for a layer that lacks a part.
        """


def opened(path: Path) -> WeightFile:
    """Open a file of weights by its suffix; by default it is one of safetensors."""
    opener: Callable[[Path], WeightFile]
    opener = pkgutil.resolve_name(FILES.get(path.suffix, SAFETENSORS))
    return opener(path)


def quantization(folder: Path) -> Quantization | None:
    """Return how a folder's weights are quantised; None for plain weights.

    Raises ModelError for a method or an option that is not supported.
    """
    config = JsonConfig.optional(folder / "config.json")
    key = next((key for key in _KEYS if config.get(key) is not None), None)
    if key is None:
        return None
    options = config.nested(key)
    return _reader(options)(options)


def _reader(options: JsonConfig) -> Callable[[JsonConfig], Quantization]:
    name = options.get("quant_method", "")
    if name not in QUANTIZATIONS and (installed := _installed_reader(name)):
        return installed
    read: Callable[[JsonConfig], Quantization]
    read = pkgutil.resolve_name(options.choice("quant_method", QUANTIZATIONS))
    return read


def _installed_reader(name: str) -> Callable[[JsonConfig], Quantization] | None:
    from importlib.metadata import entry_points  # reads the packages of the environment

    for entry in entry_points(group=GROUP, name=name):
        package = entry.dist.name if entry.dist else "an unknown package"
        try:
            read: Callable[[JsonConfig], Quantization] = entry.load()
        except Exception as error:
            raise ModelError(
                f"{GROUP} {name!r} of {package} ({entry.value}) cannot be imported: {error!r}; "
                f"repair or uninstall {package}"
            ) from error
        return read
    return None
