"""Construction of a model's encoder that the kernels compute, in any precision of theirs."""

from collections.abc import Callable
from dataclasses import dataclass

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder, LayerByLayerEncoder
from embedwell_models.cpu_backend.input_tables import FactorizedInput, InputTables
from embedwell_models.cpu_backend.layer_weights import LayerWeights, has_input_gates
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import PRECISIONS, Packing
from embedwell_models.cpu_backend.quantization import (
    QUANTIZED,
    Calibration,
    InputObserver,
)
from embedwell_models.cpu_backend.relative_positions import position_bias
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.threads import single_threaded
from embedwell_models.errors import ModelError

AddHead = Callable[[Encoder, KernelLinearFactory], Encoder]
"""Function that adds a head of linear layers in the same precision to an encoder."""

Build = Callable[[str, Packing], Encoder]
"""Function that builds an encoder for an instruction set and a packing."""


@dataclass(frozen=True)
class KernelEncoderFactory:
    """Factory of one model's encoder in a precision.

    calibration: on the reference sentences, for int8 and int4. add_head: None for no head.
    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library.
    """

    weights: Weights
    inputs: InputTables
    calibration: Calibration
    add_head: AddHead | None
    cpu_features: frozenset[str]

    half_precision = None  # `auto` compares speeds on a CPU

    def supported(self) -> list[str]:
        """Precisions that run at full speed: float32, then the others in the order of `auto`."""
        return ["float32", *compiled_precisions(self.cpu_features)]

    def check(self, dtype: str) -> None:
        """Raise ModelError if the kernels do not support a precision at full speed."""
        if dtype not in self.supported():
            raise unsupported(dtype, "cpu", self.supported())

    def build(self, dtype: str) -> Encoder:
        """Build the encoder in a supported precision."""
        builds = self._build, self._build_layer_by_layer
        return build_in_kernels(dtype, self.cpu_features, self.calibration, *builds)

    def build_reference(self) -> Encoder:
        """Build the encoder in float32 for a few passes, with the memory of a layer if possible."""
        return self._build_layer_by_layer(isa_of_float32(self.cpu_features), Packing("float32"))

    def _build(self, isa: str, packing: Packing) -> Encoder:
        config = self.inputs.config
        layers = LayerWeights(config, self.weights, isa, packing)
        bias = position_bias(config, self.weights)
        exact = KernelLinearFactory(isa, Packing("float32"))
        factorized = FactorizedInput.of(self.inputs, self.weights, exact)
        return self._with_head(KernelEncoder(self.inputs, layers, bias, factorized), isa, packing)

    def _build_layer_by_layer(self, isa: str, packing: Packing) -> Encoder:
        if has_input_gates(self.weights):
            return self._build(isa, packing)
        encoder = LayerByLayerEncoder(self.inputs, self.weights, isa, packing)
        return self._with_head(encoder, isa, packing)

    def _with_head(self, encoder: Encoder, isa: str, packing: Packing) -> Encoder:
        if self.add_head is None:
            return encoder
        return self.add_head(encoder, KernelLinearFactory(isa, packing))


def compiled_precisions(cpu_features: frozenset[str]) -> list[str]:
    """Precisions below float32 that the kernels have for a CPU, in the order of `auto`."""
    return [dtype for dtype in PRECISIONS[1:] if library.best_isa(dtype, cpu_features)]


def unsupported(dtype: str, device: str, supported: list[str]) -> ModelError:
    """Return the error for a precision that a device does not support at full speed."""
    hint = " (it is for CPUs)" if dtype in QUANTIZED else ""
    needs = {
        "bfloat16": "AVX-512 with BF16, or ARM64 with BF16",
        **dict.fromkeys(QUANTIZED, "AVX2, or ARM64 with dot products"),
    }
    if device == "cpu" and dtype in needs:
        hint = f" (it needs {needs[dtype]}, and a C++ compiler at installation)"
    return ModelError(
        f"dtype {dtype} is not supported on this {device}{hint}; supported: {', '.join(supported)}"
    )


def build_in_kernels(
    dtype: str,
    cpu_features: frozenset[str],
    calibration: Calibration,
    build: Build,
    build_for_calibration: Build,
) -> Encoder:
    """Build an encoder in a precision that the kernels have; calibrate int8 or int4 first."""
    isa = library.best_isa(dtype, cpu_features)
    assert isa is not None  # see `check`
    if dtype not in QUANTIZED:
        return build(isa, Packing(dtype))
    if calibration.magnitudes is None:
        observer = InputObserver()
        packing = Packing("float32", observer=observer)
        encoder = build_for_calibration(isa_of_float32(cpu_features), packing)
        with single_threaded():  # an observer is for one thread
            calibration.run(encoder)
        calibration.magnitudes = observer.magnitudes()
    return build(isa, Packing(dtype, calibration.magnitudes))


def isa_of_float32(cpu_features: frozenset[str]) -> str:
    """Return the best instruction set for float32 of a CPU that has kernels."""
    isa = library.best_isa("float32", cpu_features)
    assert isa is not None  # every instruction set has kernels for float32
    return isa
