"""Construction of a model's encoder in any precision that its device supports."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import InputObserver, Magnitudes
from embedwell_models.cpu_backend.support import kernels_support
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.position_hooks import PositionHooks
from embedwell_models.encoder.position_tensors import layer_position_hooks
from embedwell_models.encoder.tensors import to_tensors
from embedwell_models.encoder.threads import single_threaded
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.cuda_graphs import (
    CudaGraphRecorder,
    CudaGraphRunner,
    RecordedShapes,
)
from embedwell_models.torch_backend.device import is_ampere_or_newer
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import (
    LinearFactory,
    torch_linear_factory,
)

AddHead = Callable[[Encoder, LinearFactory], Encoder]


@dataclass(frozen=True)
class EncoderFactory:
    """Factory of one model's encoder in a precision.

    calibrate: runs the reference sentences through an encoder, for int8. add_head: adds a head of
    linear layers in the same precision to an encoder; None for no head. cpu_features: CPU features
    that may be used, see embedwell_models.cpu_backend.library. graphs: filled by an encoder that
    records CUDA graphs; None to record none.
    """

    weights: Weights
    embeddings: InputEmbeddings
    calibrate: Callable[[Encoder], object]
    add_head: AddHead | None = None
    cpu_features: frozenset[str] = field(default_factory=library.features)
    graphs: RecordedShapes | None = None

    @property
    def device(self) -> torch.device:
        return self.embeddings.device

    @property
    def half_precision(self) -> str | None:
        """Precision that `auto` takes on a GPU; None for a CPU, where `auto` compares speeds.

        Large activations, as those of T5 and Gemma, overflow in float16, but not in bfloat16. The
        reference sentences do not fill a GPU, so their time is not meaningful.
        """
        if self.device.type == "cpu":
            return None
        return "bfloat16" if is_ampere_or_newer(self.device) else "float16"

    def supported(self) -> list[str]:
        """Precisions that run at full speed: float32, then the others in the order of `auto`."""
        if self.device.type != "cpu":
            return ["float32"] + ["bfloat16"] * is_ampere_or_newer(self.device) + ["float16"]
        compiled = [dtype for dtype in ("bfloat16", "int8") if self.isa(dtype)]
        return [
            "float32",
            *(compiled or ["bfloat16"] * torch_bfloat16_is_usable(self.cpu_features)),
        ]

    def check(self, dtype: str) -> None:
        """Raise ModelError if the device does not support a precision at full speed."""
        if dtype in self.supported():
            return
        hint = " (it is for CPUs)" if dtype == "int8" else ""
        if dtype in ("bfloat16", "int8") and self.device.type == "cpu":
            hint = " (it needs AVX-512 with BF16 or VNNI, and a C++ compiler at installation)"
        raise ModelError(
            f"dtype {dtype} is not supported on this {self.device.type}{hint}; "
            f"supported: {', '.join(self.supported())}"
        )

    def isa(self, dtype: str) -> str | None:
        """Return the instruction set of the kernels for a precision; None if torch computes."""
        return library.best_isa(dtype, self.cpu_features) if self.device.type == "cpu" else None

    def build(self, dtype: str) -> Encoder:
        """Build the encoder in a supported precision."""
        isa = self.isa(dtype)
        if isa is None:
            linear = torch_linear_factory(self.device, getattr(torch, dtype))
            return self._with_head(self._torch_encoder(linear), linear)
        packing = Packing(dtype, self._input_magnitudes() if dtype == "int8" else {})
        return self._on_kernels(isa, packing)

    def _on_kernels(self, isa: str, packing: Packing) -> Encoder:
        kernels = KernelLinearFactory(isa, packing)
        config = self.embeddings.config
        if not kernels_support(config, self.weights):
            return self._with_head(self._torch_encoder(kernels), kernels)
        stack = LayerWeights(config, self.weights, isa, packing)
        encoder = KernelEncoder(self.embeddings, stack, self._position_hooks())
        return self._with_head(encoder, kernels)

    def _with_head(self, encoder: Encoder, linear: LinearFactory) -> Encoder:
        return encoder if self.add_head is None else self.add_head(encoder, linear)

    def _position_hooks(self) -> PositionHooks:
        config, like = self.embeddings.config, self.embeddings.tokens
        tensors = to_tensors(self.weights)
        return layer_position_hooks(config, tensors, "layers.0", config.attention, like)

    def _torch_encoder(self, linear: LinearFactory) -> TorchEncoder:
        embeddings, device = self.embeddings, self.device
        layers = TorchLayers(embeddings.config, self.weights, linear, device)
        graphs = self.graphs
        if graphs is None or not layers.recordable:
            return TorchEncoder(embeddings, layers)
        return TorchEncoder(
            embeddings,
            layers,
            lambda forward: CudaGraphRunner(forward, device, CudaGraphRecorder(device), graphs),
        )

    def _input_magnitudes(self) -> Magnitudes:
        observer, isa = InputObserver(), self.isa("float32")
        assert isa is not None  # every instruction set has kernels for float32
        encoder = self._on_kernels(isa, Packing("float32", observer=observer))
        with single_threaded():  # an observer is for one thread
            self.calibrate(encoder)
        return observer.magnitudes()


def torch_bfloat16_is_usable(cpu_features: frozenset[str]) -> bool:
    """Whether torch's own bfloat16 is fast on a CPU and independent of the batch.

    Emulated bfloat16 is up to a hundred times slower than float32. On a matrix unit (AMX), oneDNN
    sums in an order that depends on the number of rows, so the vector of a text would depend on its
    batch.
    """
    return (
        "avx512_bf16" in cpu_features
        and torch.cpu._is_avx512_bf16_supported()
        and not torch.cpu._is_amx_tile_supported()
    )
