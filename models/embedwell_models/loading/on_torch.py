"""Encoders that torch computes; on a CPU the kernels compute their linear layers."""

from dataclasses import dataclass
from functools import cached_property

from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Inputs, LinearFactory
from embedwell_models.encoder.splade import SpladeEncoder
from embedwell_models.loading.state_heads import head_of_states
from embedwell_models.torch_backend.device import resolve_device
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.encoder_factory import (
    AddHead,
    DecoderWeights,
    TorchEncoderFactory,
)
from embedwell_models.torch_backend.linear_adapters import device_linear
from embedwell_models.torch_backend.splade import DeviceSpladeEncoder, TorchSpladeHead


@dataclass(frozen=True)
class TorchBackend:
    """Backend of torch; for its members see `BackendWithoutTorch`."""

    device: Device
    reason: str
    cpu_features: frozenset[str]
    linear: LinearFactory

    @cached_property
    def device_linear(self) -> LinearFactory:
        return device_linear(resolve_device(str(self.device)))

    def inputs(self, spec: ModelSpec, weights: Weights) -> InputEmbeddings:
        return InputEmbeddings(spec.config, weights, resolve_device(str(self.device)))

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibration: Calibration,
        graphs: RecordedShapes,
    ) -> TorchEncoderFactory:
        assert isinstance(inputs, InputEmbeddings)
        device = inputs.device
        # On a CPU the states are already where the head needs them.
        on_gpu = device.type == "cuda"
        add_head: AddHead | None = head_of_states(
            description,
            weights,
            lambda splade, head, linear: TorchSpladeHead(splade, head, linear, device),
            "on_torch",
            splade_encoder=DeviceSpladeEncoder if on_gpu else SpladeEncoder,
        )
        parts = weights, inputs, calibration, add_head, self.cpu_features
        decoder = _decoder_weights(description)
        return TorchEncoderFactory(*parts, graphs=graphs, decoder=decoder)

    def image_encoders(
        self, weights: Weights, inputs: Inputs, calibration: Calibration
    ) -> TorchEncoderFactory:
        assert isinstance(inputs, InputEmbeddings)
        return TorchEncoderFactory(weights, inputs, calibration, None, self.cpu_features)


def _decoder_weights(description: ModelDescription) -> DecoderWeights | None:
    if (decoder := description.spec.decoder) is None:
        return None
    return DecoderWeights(decoder, weights.load(description.encoder, decoder.model))
