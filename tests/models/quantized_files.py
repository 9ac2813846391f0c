"""Checkpoints whose layers are stored quantised, and the same weights in float32."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Qwen3Config, Qwen3Model

from embedwell_models.embedder import Embedder
from tests.models.model_files.options import configure
from tests.models.random_weights import randomize
from tests.models.tiny import VOCABULARY, write_bert, write_tokenizer

Quantize = Callable[[Tensor], tuple[dict[str, Tensor], Tensor]]
"""Return the parts of a weight (N, D), by the ends of their names, and what they mean."""

NVFP4_SIZES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
TEXTS = ["the license of this work", "copyright", "to you and any of that, with such work"]


def write_encoder(folder: Path, kind: str) -> Path:
    """Save a BERT or a Qwen3 of random weights whose matrices have 64 or 128 columns."""
    if kind == "bert":
        write_bert(folder, hidden_size=64, intermediate_size=128)
        return folder
    config = Qwen3Config(
        vocab_size=len(VOCABULARY),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        rms_norm_eps=0.05,
    )
    model = Qwen3Model(config)
    randomize(model)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_quantized(
    folder: Path, quantize: Quantize, options: Mapping[str, Any], kind: str = "bert"
) -> tuple[Path, Path]:
    """Save a model with quantised layers, and one with the weights that they mean.

    options: the quantization_config.
    """
    quantized, plain = folder / "quantized", folder / "plain"
    write_encoder(plain, kind)
    shutil.copytree(plain, quantized)
    configure(quantized, quantization_config=dict(options))
    tensors = load_file(plain / "model.safetensors")
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        layer, _, ending = name.rpartition(".")
        if "layer" not in name or ending != "weight" or tensor.ndim < 2:
            stored[name] = tensor
            continue
        parts, meant = quantize(tensor)
        stored |= {
            f"{layer}.{part}": value.clone(memory_format=torch.contiguous_format)
            for part, value in parts.items()
        }
        tensors[name] = meant.contiguous()
    for target, content in ((quantized, stored), (plain, tensors)):
        save_file(content, target / "model.safetensors", {"format": "pt"})
    return quantized, plain


def vectors(folder: Path) -> Any:
    """Embed some texts in float32."""
    return Embedder.load(folder, device="cpu", dtype="float32").embed(TEXTS)


def assert_same_vectors(quantized: Path, plain: Path) -> None:
    assert np.array_equal(vectors(quantized), vectors(plain))


def change(folder: Path, edit: Callable[[dict[str, Tensor]], None]) -> Path:
    """Edit the tensors of a model."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path, {"format": "pt"})
    return folder


def nibbles(numbers: Tensor) -> Tensor:
    """Pack unsigned numbers below 16 (N, D) as words (N, D / 8), the first into the lowest bits."""
    pairs = numbers.to(torch.uint8).contiguous().numpy()
    return torch.from_numpy((pairs[:, ::2] + 16 * pairs[:, 1::2]).view("<i4").copy())


def fp8_blocks(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """Quantise to FP8 with blocks of 48 rows and columns, of which the last are smaller."""
    rows, columns = (-(-size // 48) for size in weight.shape)
    scale = torch.rand(rows, columns, generator=torch.Generator().manual_seed(1)) / 100 + 0.001
    block_row, block_column = (torch.arange(size) // 48 for size in weight.shape)
    spread = scale[block_row[:, None], block_column]
    codes = (weight / spread).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale}, codes.float() * spread


def nvfp4_columns(weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Round to NVFP4: bytes of two columns, scales of 16 columns and of all, and what they mean."""
    tensor_scale = weight.abs().max().float() / (6 * 448)
    groups = weight.reshape(len(weight), -1, 16)
    scale = (groups.abs().amax(2) / 6 / tensor_scale).to(torch.float8_e4m3fn)
    step = scale.float() * tensor_scale
    nearest = ((groups / step[..., None]).abs()[..., None] - NVFP4_SIZES).abs().argmin(-1)
    meant = (NVFP4_SIZES[nearest] * groups.sign() * step[..., None]).flatten(1)
    codes = (nearest + 8 * (groups < 0)).flatten(1).to(torch.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scale, tensor_scale, meant
