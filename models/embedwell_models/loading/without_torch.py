"""Encoders without torch: layers that the compiled kernels compute, or a table on numpy."""

from dataclasses import dataclass

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.cpu_backend.encoder_factory import KernelEncoderFactory
from embedwell_models.cpu_backend.heads import KernelLatentAttention, KernelSpladeHead
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.cpu_backend.table_encoder import TableEncoderFactory
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Inputs
from embedwell_models.encoder.layers import LinearFactory
from embedwell_models.loading.state_heads import head_of_states
from embedwell_models.model_description import ModelDescription


@dataclass(frozen=True)
class BackendWithoutTorch:
    """Base of the backends without torch.

    reason: why torch takes part; None if it does not. linear: builds float32 layers on a CPU whose
    output rows depend only on their input row. device_linear: builds float32 layers on the device.
    inputs: builds the first step of an encoder. text_encoders: returns the factory of a model's
    text encoder, with its head over states; it fills `graphs` on a GPU that is warm.
    image_encoders: returns the factory of an image encoder, for floating-point precisions.
    """

    cpu_features: frozenset[str]
    linear: LinearFactory

    device = Device("cpu")
    reason = None

    @property
    def device_linear(self) -> LinearFactory:
        return self.linear

    def inputs(self, layout: CheckpointLayout, weights: Weights) -> InputTables:
        return InputTables.of(layout.config, weights)


class KernelBackend(BackendWithoutTorch):
    """Backend of the compiled kernels."""

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibration: Calibration,
        graphs: RecordedShapes,
    ) -> KernelEncoderFactory:
        assert isinstance(inputs, InputTables)
        heads = KernelSpladeHead, KernelLatentAttention
        add_head = head_of_states(description, weights, *heads)
        return KernelEncoderFactory(weights, inputs, calibration, add_head, self.cpu_features)

    def image_encoders(self, weights: Weights, inputs: Inputs) -> KernelEncoderFactory:
        assert isinstance(inputs, InputTables)
        return KernelEncoderFactory(
            weights, inputs, Calibration(lambda _: None), None, self.cpu_features
        )


class TableBackend(BackendWithoutTorch):
    """Backend of a table of token vectors on numpy."""

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibration: Calibration,
        graphs: RecordedShapes,
    ) -> TableEncoderFactory:
        return self.image_encoders(weights, inputs)

    def image_encoders(self, weights: Weights, inputs: Inputs) -> TableEncoderFactory:
        assert isinstance(inputs, InputTables)
        return TableEncoderFactory(inputs, self.cpu_features)
