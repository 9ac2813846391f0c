"""Loads encoders of LSTMs."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from models.checkpoint import weights
from models.config.encoder_config import EncoderConfig
from models.encoder.device import resolve_device
from models.families import laser
from models.folder import Folder
from models.torch_backend.linear import LinearFactory, TorchLinearFactory
from models.torch_backend.recurrent import BiLstmEncoder, RecurrentEncoder

_Build = Callable[
    [EncoderConfig, Mapping[str, Tensor], LinearFactory, torch.device], RecurrentEncoder
]
ENCODERS: Mapping[str, _Build] = {laser.LSTM: BiLstmEncoder}
"""The encoders of LSTMs by the family of their model."""


@torch.inference_mode()
def load_recurrent(folder: Folder, device: str, row_exact: LinearFactory) -> RecurrentEncoder:
    """Load an encoder of LSTMs. row_exact: builds its linear layers on a CPU. Raises ModelError."""
    place, config = resolve_device(device), folder.spec.config
    linear = row_exact if place.type == "cpu" else TorchLinearFactory(place, torch.float32)
    tensors = weights.load(folder.encoder, folder.spec)
    return ENCODERS[config.family](config, tensors, linear, place)
