"""Formats of weights: what opens each kind of file, and what reads quantised layers.

Each is named as "module:function", whose module is imported for a model that needs it.
"""

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from embedwell_models.checkpoint.stored_tensor import StoredTensor, TensorHeader
from embedwell_models.config import other_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

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
