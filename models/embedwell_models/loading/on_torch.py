"""Encoders that torch computes; on a CPU their linear layers are those of the kernels."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder, Inputs
from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.masked_lm import load_masked_lm_weights
from embedwell_models.encoder.splade_encoder import SpladeEncoder
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sparse import Splade
from embedwell_models.torch_backend.array_linear import device_linear
from embedwell_models.torch_backend.device import resolve_device
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.encoder_factory import AddHead, TorchEncoderFactory
from embedwell_models.torch_backend.latent_attention import LatentAttention, LatentAttentionEncoder
from embedwell_models.torch_backend.latents import load_latent_weights
from embedwell_models.torch_backend.splade import TorchSpladeHead


@dataclass(frozen=True)
class TorchBackend:
    """Backend of torch; for its members see `Backend`."""

    device: Device
    reason: str
    cpu_features: frozenset[str]
    linear: LinearFactory

    @cached_property
    def device_linear(self) -> LinearFactory:
        return device_linear(resolve_device(str(self.device)))

    def inputs(self, layout: CheckpointLayout, weights: Weights) -> InputEmbeddings:
        return InputEmbeddings(layout.config, weights, resolve_device(str(self.device)))

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibrate: Callable[[Encoder], object],
        graphs: RecordedShapes | None,
    ) -> TorchEncoderFactory:
        assert isinstance(inputs, InputEmbeddings)
        add_head = _head_of_states(description, inputs)
        parts = weights, inputs, calibrate, add_head, self.cpu_features
        return TorchEncoderFactory(*parts, graphs=graphs)

    def image_encoders(self, weights: Weights, inputs: Inputs) -> TorchEncoderFactory:
        assert isinstance(inputs, InputEmbeddings)
        return TorchEncoderFactory(weights, inputs, lambda _: None, None, self.cpu_features)


def _head_of_states(description: ModelDescription, inputs: InputEmbeddings) -> AddHead | None:
    splade, latents = description.sentence.sparse, description.spec.latents
    device, layers = inputs.device, inputs.config.num_layers
    if isinstance(splade, Splade):
        table = inputs.token_table
        head = load_masked_lm_weights(
            description.encoder, splade.head, table, inputs.config.hidden_size
        )
        return lambda encoder, linear: SpladeEncoder(
            encoder, TorchSpladeHead(splade, head, linear, device), layers
        )
    if latents is not None:
        weights = load_latent_weights(description.encoder, latents)
        return lambda encoder, linear: LatentAttentionEncoder(
            encoder, LatentAttention(weights, linear, device), layers
        )
    return None
