"""Loading of encoders that are not plain transformers: LSTMs, CANINE, Funnel and others."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.encoder.device import resolve_device
from embedwell_models.families import canine, elmo, funnel, laser, mobilebert
from embedwell_models.folder import Folder
from embedwell_models.torch_backend.canine import CanineEncoder, CanineOptions
from embedwell_models.torch_backend.elmo import ElmoEncoder, ElmoOptions
from embedwell_models.torch_backend.funnel import FunnelEncoder, FunnelOptions
from embedwell_models.torch_backend.linear import LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.lstm import Clips
from embedwell_models.torch_backend.mobilebert import MobileBertEncoder
from embedwell_models.torch_backend.recurrent import BiLstmEncoder
from embedwell_models.torch_backend.state_encoder import StateEncoder

_Build = Callable[[Folder, Mapping[str, Tensor], LinearFactory, torch.device], StateEncoder]


def _laser(
    folder: Folder, tensors: Mapping[str, Tensor], linear: LinearFactory, device: torch.device
) -> StateEncoder:
    return BiLstmEncoder(folder.spec.config, tensors, linear, device)


def _elmo(
    folder: Folder, tensors: Mapping[str, Tensor], linear: LinearFactory, device: torch.device
) -> StateEncoder:
    file = JsonConfig(folder.encoder / "config.json")
    clips = Clips(*(file.get(name, float("inf")) for name in ("cell_clip", "state_clip")))
    options = ElmoOptions(file.get("max_characters", 50), folder.spec.config.activation, clips)
    return ElmoEncoder(folder.spec.config, options, tensors, linear, device)


def _canine(
    folder: Folder, tensors: Mapping[str, Tensor], linear: LinearFactory, device: torch.device
) -> StateEncoder:
    file = JsonConfig(folder.encoder / "config.json")
    options = CanineOptions(
        rate=file.get("downsampling_rate", canine.RATE),
        block=file.get("local_transformer_stride", canine.BLOCK),
    )
    return CanineEncoder(folder.spec.config, options, tensors, linear, device)


def _funnel(
    folder: Folder, tensors: Mapping[str, Tensor], linear: LinearFactory, device: torch.device
) -> StateEncoder:
    file = JsonConfig(folder.encoder / "config.json")
    options = FunnelOptions(
        layers=funnel.layers(file),
        first=funnel.layers_of_first_block(file),
        decoder_layers=funnel.decoder_layers(file),
    )
    return FunnelEncoder(folder.spec.config, options, tensors, linear, device)


def _mobilebert(
    folder: Folder, tensors: Mapping[str, Tensor], linear: LinearFactory, device: torch.device
) -> StateEncoder:
    return MobileBertEncoder(folder.spec.config, tensors, linear, device)


ENCODERS: Mapping[str, _Build] = {
    canine.FAMILY: _canine,
    elmo.FAMILY: _elmo,
    funnel.FAMILY: _funnel,
    laser.LSTM: _laser,
    mobilebert.FAMILY: _mobilebert,
}
"""The loaders of these encoders, by the family of the model."""


@torch.inference_mode()
def load_state_encoder(folder: Folder, device: str, row_exact: LinearFactory) -> StateEncoder:
    """Load an encoder by the loaders in ENCODERS; raises ModelError.

    row_exact: builds the linear layers on a CPU.
    """
    place = resolve_device(device)
    linear = row_exact if place.type == "cpu" else TorchLinearFactory(place, torch.float32)
    tensors = weights.load(folder.encoder, folder.spec)
    return ENCODERS[folder.spec.config.family](folder, tensors, linear, place)
