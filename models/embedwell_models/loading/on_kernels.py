"""Encoders that the compiled kernels compute, without torch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import AddHead, KernelEncoderFactory
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.splade import KernelSpladeHead
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder, Inputs
from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.masked_lm import load_masked_lm_weights
from embedwell_models.encoder.splade_encoder import SpladeEncoder
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sparse import Splade


@dataclass(frozen=True)
class KernelBackend:
    """Backend of the compiled kernels; for its members see `Backend`."""

    cpu_features: frozenset[str]

    device = Device("cpu")
    reason = None

    @cached_property
    def linear(self) -> LinearFactory:
        isa = library.best_isa("float32", self.cpu_features)
        assert isa is not None  # see why_torch
        return KernelLinearFactory(isa, Packing("float32"))

    @property
    def device_linear(self) -> LinearFactory:
        return self.linear

    def inputs(self, layout: CheckpointLayout, weights: Weights) -> InputTables:
        return InputTables.of(layout.config, weights)

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibrate: Callable[[Encoder], object],
        graphs: RecordedShapes | None,
    ) -> KernelEncoderFactory:
        assert isinstance(inputs, InputTables)
        add_head = _splade_head(description, inputs)
        return KernelEncoderFactory(weights, inputs, calibrate, add_head, self.cpu_features)

    def image_encoders(self, weights: Weights, inputs: Inputs) -> KernelEncoderFactory:
        assert isinstance(inputs, InputTables)
        return KernelEncoderFactory(weights, inputs, lambda _: None, None, self.cpu_features)


def _splade_head(description: ModelDescription, inputs: InputTables) -> AddHead | None:
    splade, config = description.sentence.sparse, inputs.config
    if not isinstance(splade, Splade):
        return None
    head = load_masked_lm_weights(
        description.encoder, splade.head, inputs.tokens, config.hidden_size
    )
    return lambda encoder, linear: SpladeEncoder(
        encoder, KernelSpladeHead(splade, head, linear), config.num_layers
    )
