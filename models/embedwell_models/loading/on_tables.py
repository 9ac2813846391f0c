"""Models without layers that the kernels do not compute; they need no torch either."""

from dataclasses import dataclass

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.cpu_backend.table_encoder import TableEncoderFactory
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Inputs
from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.model_description import ModelDescription


@dataclass(frozen=True)
class TableBackend:
    """Backend of a table of token vectors on numpy; for its members see `Backend`."""

    cpu_features: frozenset[str]
    linear: LinearFactory

    device = Device("cpu")
    reason = None

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
        calibration: Calibration,
        graphs: RecordedShapes,
    ) -> TableEncoderFactory:
        return self.image_encoders(weights, inputs)

    def image_encoders(self, weights: Weights, inputs: Inputs) -> TableEncoderFactory:
        assert isinstance(inputs, InputTables)
        return TableEncoderFactory(inputs, self.cpu_features)
