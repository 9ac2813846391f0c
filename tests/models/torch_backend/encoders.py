"""Encoders of checkpoints on torch, with torch's plain linear layers."""

from pathlib import Path

import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory


def torch_encoder(folder: Path, device: torch.device) -> tuple[TorchEncoder, int]:
    """Load an encoder in float32; return it with its number of layers."""
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    linear = TorchLinearFactory(device, torch.float32)
    layers = TorchLayers(spec.config, loaded, linear, device)
    return TorchEncoder(InputEmbeddings(spec.config, loaded, device), layers), len(layers)
