"""The quantised weights of a folder, by the scheme that its config.json names."""

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.quantized.layer import Parts, Scheme
from embedwell_models.checkpoint.safetensors_files import StoredTensor
from embedwell_models.config.json_config import JsonConfig

_KEYS = ("quantization_config", "compression_config")  # the second one in files of 2024
_SCHEMES: Mapping[str, str] = {  # imported for a folder that names one
    "awq": "awq:Awq.read",
    "bitsandbytes": "bitsandbytes:BitsAndBytes.read",
    "compressed-tensors": "compressed_tensors:CompressedTensors.read",
    "fp8": "fp8:BlockFp8.read",
    "gptq": "gptq:Gptq.read",
    "modelopt": "nvfp4:ModelOpt.read",
}


def scheme(folder: Path) -> Scheme | None:
    """Return the scheme of a folder's weights; None for plain weights.

    Raises ModelError for a scheme or an option that is not supported.
    """
    config = JsonConfig.optional(folder / "config.json")
    key = next((key for key in _KEYS if config.get(key) is not None), None)
    if key is None:
        return None
    options = config.nested(key)
    name = f"{__package__}.{options.choice('quant_method', _SCHEMES)}"
    read: Callable[[JsonConfig], Scheme] = pkgutil.resolve_name(name)
    return read(options)


def tensors(folder: Path, scheme: Scheme) -> Iterator[tuple[str, StoredTensor]]:
    """Yield name and value of every tensor, with the parts of a quantised layer as its weight.

    Raises ModelError for a file that cannot be read, and for a layer that lacks a part.
    """
    files = map(safetensors_files.map_file, safetensors_files.require_weight_files(folder))
    plain = {name: tensor for file in files for name, tensor in file}
    endings = "|".join(map(re.escape, scheme.endings))
    pattern = re.compile(rf"(.+?)\.({endings})")
    layers: dict[str, dict[str, StoredTensor]] = {}
    for name in [*plain]:
        if match := pattern.fullmatch(name):
            layers.setdefault(match[1], {})[match[2]] = plain.pop(name)
    for layer, parts in layers.items():
        weight = f"{layer}.weight"
        if weight in plain:
            parts["weight"] = plain[weight]
        if (read := scheme.weight(Parts(f"{folder}: {layer}", parts))) is not None:
            plain[weight] = StoredTensor(*read)
    yield from plain.items()
