"""Adapters in files of their own, as PEFT saves them (LoRA: Hu et al. 2021, arXiv 2106.09685)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tables.quantized import QuantizedMatrix

FILES = CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FOLDER = "peft_adapter"  # in the folder of an encoder, whose weights it is added to
_PREFIX = "base_model.model."
_PARTS = ("lora_A", "lora_B")
_REQUIRED: Mapping[str, Any] = {  # options with their only supported value
    "peft_type": "LORA",
    "bias": "none",
    "alpha_pattern": {},
    "rank_pattern": {},
    **dict.fromkeys(("fan_in_fan_out", "lora_bias", "use_dora", "use_qalora"), False),
    **dict.fromkeys(("modules_to_save", "layer_replication", "megatron_config"), None),
    **dict.fromkeys(("target_parameters", "trainable_token_indices"), None),
    **dict.fromkeys(("alora_invocation_tokens", "use_bdlora", "kasa_config"), None),
}
_IGNORED = (  # training, and places that the names of the tensors state, too
    *("auto_mapping", "base_model_name_or_path", "revision", "task_type", "inference_mode"),
    *("lora_dropout", "init_lora_weights", "loftq_config", "eva_config", "corda_config"),
    *("target_modules", "exclude_modules", "layers_pattern", "layers_to_transform"),
    *("megatron_core", "peft_version", "qalora_group_size", "ensure_weight_tying"),
    *("lora_ga_config", "runtime_config", "arrow_config"),
)


def folders(encoder: Path, chosen: str | None) -> list[Path]:
    """List the folders of the adapters that are added to an encoder's weights.

    chosen: folder of the adapter of a task, relative to the encoder's; None without one.
    """
    of_task = [encoder / chosen] if chosen else []
    return [*of_task, *[encoder / FOLDER] * (encoder / FOLDER).is_dir()]


def read_additions(folder: Path) -> Mapping[str, npt.NDArray[np.float64]]:
    """Return what an adapter adds to matrices, by the names of the matrices.

    Raises ModelError for an option or a tensor that is not supported, and for a missing file.
    """
    scale = _scale(JsonConfig(folder / CONFIG))
    path = folder / WEIGHTS
    if not path.is_file():
        raise ModelError(f"{path} is missing")
    factors: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    for name, tensor in safetensors_files.map_file(path):
        module, _, part = name.removesuffix(".weight").rpartition(".")
        if part not in _PARTS or not name.startswith(_PREFIX):
            raise ModelError(f"{path}: {name} is not supported; supported: {_PARTS}")
        if isinstance(tensor.array, QuantizedMatrix) or not tensor.is_float:
            raise ModelError(f"{path}: {name} {tensor.refusal}")
        values = tensor.to_float32().astype(np.float64)
        if values.ndim != 2 or not np.isfinite(values).all():
            raise ModelError(f"{path}: {name} is no matrix of finite numbers")
        factors.setdefault(f"{module.removeprefix(_PREFIX)}.weight", {})[part] = values
    return {name: _product(path, name, pair) * scale for name, pair in factors.items()}


def _scale(options: JsonConfig) -> float:
    for key, value in _REQUIRED.items():
        options.require(key, value)
    options.refuse_unknown({*_REQUIRED, *_IGNORED, "r", "lora_alpha", "use_rslora"})
    rank = options.get("r", 8)
    divisor = math.sqrt(rank) if options.get("use_rslora", False) else rank
    return float(options["lora_alpha"] / divisor)


def _product(
    path: Path, name: str, pair: Mapping[str, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    if missing := {*_PARTS} - pair.keys():
        raise ModelError(f"{path} lacks {sorted(missing)} of {name}")
    down, up = (pair[part] for part in _PARTS)
    if up.shape[1] != len(down):
        raise ModelError(f"{path}: the shapes of {name} are {down.shape} and {up.shape}")
    product: npt.NDArray[np.float64] = up @ down
    return product
