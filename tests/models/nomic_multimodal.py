"""nomic-embed-multimodal of random weights, as it is published: an adapter of a Qwen2.5-VL."""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.models.qwen2_vl import AREA, PROCESSOR, flatten, write_qwen2_vl
from tests.models.qwen3_vl import save

RANK, ALPHA = 2, 3
# The published files, with fewer pixels.
ADAPTER: dict[str, Any] = {
    **{"alpha_pattern": {}, "auto_mapping": None, "bias": "none", "eva_config": None},
    **{"exclude_modules": None, "fan_in_fan_out": False, "inference_mode": True},
    **{"init_lora_weights": "gaussian", "layer_replication": None, "layers_pattern": None},
    **{"layers_to_transform": None, "loftq_config": {}, "lora_alpha": ALPHA, "lora_bias": False},
    **{"lora_dropout": 0.1, "megatron_config": None, "megatron_core": "megatron.core"},
    **{"modules_to_save": None, "peft_type": "LORA", "r": RANK, "rank_pattern": {}},
    "revision": None,
    "target_modules": "(.*(model).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj).*$|"
    ".*(custom_text_proj).*$)",
    **{"task_type": "FEATURE_EXTRACTION", "use_dora": False, "use_rslora": False},
}
BOUNDS = {"min_pixels": 4 * AREA, "max_pixels": 40 * AREA}
_SIZE = {"shortest_edge": 4 * AREA, "longest_edge": 12_845_056}
_ADAPTED = re.compile(
    r"model\.layers\..*(down|gate|up|k|q|v|o)_proj\.weight|custom_text_proj\.weight"
)


def write_processor(folder: Path, code: str) -> None:
    """Save the two files of a processor. code: class of the model."""
    names = {"processor_class": f"{code}_Processor"}
    save(folder, "preprocessor_config.json", {**PROCESSOR, **BOUNDS, "size": _SIZE, **names})
    save(folder, "processor_config.json", {"max_num_visual_tokens": 40, **names})


def write_adapter(
    folder: Path, base: Path, adapted: re.Pattern[str] = _ADAPTED
) -> dict[str, Tensor]:
    """Save an adapter of all projections of a base model; return what it adds to each.

    adapted: names of the matrices.
    """
    noise, added = torch.Generator().manual_seed(3), dict[str, Tensor]()
    factors, tensors = dict[str, Tensor](), load_file(base / "model.safetensors")
    for name in filter(adapted.fullmatch, tensors):
        rows, columns = tensors[name].shape
        up, down = (0.3 * torch.randn(s, generator=noise) for s in ((rows, RANK), (RANK, columns)))
        module = f"base_model.model.{name.removesuffix('.weight')}"
        factors |= {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
        added[name] = up @ down * (ALPHA / RANK)
    save_file(factors, folder / "adapter_model.safetensors")
    save(folder, "adapter_config.json", {**ADAPTER, "base_model_name_or_path": str(base)})
    return added


def write_nomic_multimodal(folder: Path, **sizes: Any) -> Any:
    """Save a base model and an adapter; return the model of transformers with the adapter.

    folder: receives the folders `base` and `nomic`. sizes: of the text encoder.
    """
    base, adapter = folder / "base", folder / "nomic"
    model = write_qwen2_vl(base, model_type="qwen2_5_vl", **sizes)
    flatten(base)
    adapter.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.json"):
        (base / name).rename(adapter / name)
    write_processor(adapter, "BiQwen2_5")
    with torch.no_grad():
        for name, addition in write_adapter(adapter, base).items():
            layer = name.removeprefix("model.")
            model.model.language_model.get_parameter(layer).add_(addition)
    return model
