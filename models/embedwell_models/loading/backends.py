"""Choice of what computes a model: the compiled kernels alone, or torch."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import CheckpointLayout
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.cpu_backend.support import kernels_support
from embedwell_models.encoder.batch_shape import RecordedShapes
from embedwell_models.encoder.device import Device, may_be_gpu
from embedwell_models.encoder.encoder import Inputs
from embedwell_models.encoder.linear import Linear, LinearFactory, RowMaximum
from embedwell_models.loading.on_kernels import KernelBackend
from embedwell_models.model_description import ModelDescription
from embedwell_models.precision.trials import EncoderFactoryProtocol
from embedwell_models.vectors import Floats

_WITHOUT_KERNELS = "a processor or an installation without compiled kernels"


class Backend(Protocol):
    """Builder of the parts of an encoder on one device.

    reason: why torch takes part; None if it does not. linear: builds float32 layers on a CPU whose
    output rows depend only on their input row. device_linear: builds float32 layers on the device.
    """

    @property
    def device(self) -> Device: ...

    @property
    def reason(self) -> str | None: ...

    @property
    def linear(self) -> LinearFactory: ...

    @property
    def device_linear(self) -> LinearFactory: ...

    def inputs(self, layout: CheckpointLayout, weights: Weights) -> Inputs:
        """Build the first step of an encoder."""
        ...

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibration: Calibration,
        graphs: RecordedShapes | None,
    ) -> EncoderFactoryProtocol:
        """Return the factory of a model's text encoder, with its head over states.

        graphs: filled if CUDA graphs are recorded; None to record none.
        """
        ...

    def image_encoders(self, weights: Weights, inputs: Inputs) -> EncoderFactoryProtocol:
        """Return the factory of an image encoder, for floating-point precisions."""
        ...


@dataclass(frozen=True)
class RowExactLinear(LinearFactory):
    """Factory of float32 layers on a CPU; it imports torch for a layer that has no kernel.

    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library.
    """

    cpu_features: frozenset[str]

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return self._factory(weight, bias, activation, name=name)

    def row_maximum(self, weight: Floats, bias: Floats, *, name: str = "") -> RowMaximum:
        return self._factory.row_maximum(weight, bias, name=name)

    @cached_property
    def _factory(self) -> LinearFactory:
        if library.best_isa("float32", self.cpu_features) is not None:
            return KernelBackend(self.cpu_features).linear
        from embedwell_models.torch_backend.array_linear import device_linear
        from embedwell_models.torch_backend.device import CPU

        return device_linear(CPU)


def choose_device(name: str) -> Device:
    """Return the device for a name: auto (the first GPU, else the CPU), cpu, cuda or cuda:N.

    Raises ModelError if there is no such device.
    """
    if not may_be_gpu(name):
        return Device("cpu")
    from embedwell_models.torch_backend.device import resolve_device

    return Device.parse(str(resolve_device(name)))


def choose_backend(
    layout: CheckpointLayout, weights: Weights, device: Device, cpu_features: frozenset[str]
) -> Backend:
    """Choose the kernels if they compute the whole encoder, otherwise torch.

    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library. Raises
    ModuleNotFoundError if torch is needed and not installed.
    """
    reason = why_torch(layout, weights, device, cpu_features)
    if reason is None:
        return KernelBackend(cpu_features)
    from embedwell_models.loading.on_torch import TorchBackend

    return TorchBackend(device, reason, cpu_features, RowExactLinear(cpu_features))


def why_torch(
    layout: CheckpointLayout, weights: Weights, device: Device, cpu_features: frozenset[str]
) -> str | None:
    """Return what the kernels cannot compute of an encoder; None if they compute it alone."""
    if device.type != "cpu":
        return f"the device {device}"
    if library.best_isa("float32", cpu_features) is None:
        return _WITHOUT_KERNELS
    if not kernels_support(layout.config, weights):
        return f"the layers of this {layout.config.family} model"
    return None
