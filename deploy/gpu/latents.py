"""Random latents after the layers of a Mistral, as NV-Embed has them (arXiv 2405.17428)."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from deploy.gpu.device import DEVICE

_SIZES = {"num_latents_value": 512, "num_cross_heads": 8, "cross_dim_head": 4096}
_SMALL = {"num_latents_value": 24, "num_cross_heads": 2, "cross_dim_head": 40}


def add_latents(folder: Path, *, small: bool) -> None:
    """Add latents to the folder of a Mistral and its tokenizer, which then is an NV-Embed's."""
    text = _read(folder / "config.json")
    width = text["hidden_size"]
    sizes = {"hidden_dim": width, "latent_dim": width, **(_SMALL if small else _SIZES)}
    config = {
        **{"model_type": "nvembed", "architectures": ["NVEmbedModel"], "add_eos": True},
        **{"padding_side": "right", "mask_type": "b"},
        "text_config": {**text, "model_type": "bidir_mistral"},
        "latent_attention_config": {"model_type": "latent_attention", **sizes},
    }
    _write(folder / "config.json", config)
    tokenizer = folder / "tokenizer_config.json"
    _write(tokenizer, _read(tokenizer) | {"eos_token": "[SEP]"})
    (folder / "model.safetensors").rename(folder / "model-1-of-2.safetensors")
    save_file(_tensors(sizes), folder / "model-2-of-2.safetensors")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def _tensors(sizes: dict[str, Any]) -> dict[str, Tensor]:
    width, features = sizes["latent_dim"], sizes["num_cross_heads"] * sizes["cross_dim_head"]
    attention, ffn = "cross_attend_blocks.0", "cross_attend_blocks.1"
    shapes = {
        "latents": (sizes["num_latents_value"], width),
        f"{attention}.fn.to_q.weight": (features, width),
        f"{attention}.fn.to_kv.weight": (2 * features, width),
        f"{attention}.fn.to_out.weight": (width, features),
        f"{ffn}.fn.net.0.weight": (8 * width, width),
        f"{ffn}.fn.net.0.bias": (8 * width,),
        f"{ffn}.fn.net.2.weight": (width, 4 * width),
        f"{ffn}.fn.net.2.bias": (width,),
    }
    norms = (f"{attention}.norm", f"{attention}.norm_context", f"{ffn}.norm")
    found = {name: torch.randn(shape, device=DEVICE) / width**0.5 for name, shape in shapes.items()}
    found |= {f"{norm}.weight": torch.ones(width) for norm in norms}
    found |= {f"{norm}.bias": torch.zeros(width) for norm in norms}
    prefix = "latent_attention_model."
    return {prefix + name: tensor.to("cpu", torch.bfloat16) for name, tensor in found.items()}
