"""Encoders of checkpoints on torch, and those whose passes are recorded as graphs."""

from pathlib import Path

import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from tests.models.families.checkpoint import Case


def torch_encoder(folder: Path, device: torch.device) -> tuple[TorchEncoder, int]:
    """Load an encoder in float32; return it with its number of layers."""
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    linear = TorchLinearFactory(device, torch.float32)
    layers = TorchLayers(spec.config, loaded, linear, device)
    return TorchEncoder(InputEmbeddings(spec.config, loaded, device), layers), len(layers)


DYNAMIC = {
    "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 50.0},
    "max_position_embeddings": 24,
}

CASES = [
    Case("bert"),
    Case("modernbert", {"local_attention": 10, "pad_token_id": 0}),
    Case("nomic_bert", DYNAMIC),  # the turns depend on a text's own length
    Case("qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
]

RELATIVE_CASES = [  # attention by the kernel of Triton
    Case("t5", {"relative_attention_max_distance": 12}),
    Case("mpnet"),
    Case("deberta-v2"),
    Case("gemma2"),
]
