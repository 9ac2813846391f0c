"""Construction of a model's encoder on torch, in any precision that its device supports.

On a CPU, the compiled kernels compute its linear layers, where there are any.
"""

import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from embedwell_models.checkpoint.weights import Weights, shapes_of
from embedwell_models.config.model_spec import DecoderSpec, ModelSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import (
    build_in_kernels,
    compiled_precisions,
    unsupported,
)
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.encoder.batch_shape import PassPlan, RecordedShapes
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.torch_backend.cuda_graphs import (
    RECORDED_SHAPES,
    CudaGraphRecorder,
    CudaGraphRunner,
    Forward,
)
from embedwell_models.torch_backend.device import has_bfloat16, usable_gpu
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.linear_adapters import TensorKernelLinearFactory
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.operators import Operators, operators_for

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DecoderWeights:
    """A decoder that reads the encoder's states, and its tensors."""

    spec: DecoderSpec
    weights: Weights


AddHead = Callable[[Encoder, LinearFactory], Encoder]
"""Function that adds a head of linear layers in the same precision to an encoder."""


@dataclass(frozen=True)
class TorchEncoderFactory:
    """Factory of one model's encoder in a precision.

    calibration: on the reference sentences, for int8 and int4. add_head: None for no head.
    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library.
    graphs: filled by an encoder on a GPU that is warm; None to record none. decoder: None for an
    encoder alone.
    """

    weights: Weights
    embeddings: InputEmbeddings
    calibration: Calibration
    add_head: AddHead | None
    cpu_features: frozenset[str]
    graphs: RecordedShapes | None = None
    decoder: DecoderWeights | None = None

    @property
    def device(self) -> torch.device:
        return self.embeddings.device

    @property
    def half_precision(self) -> str | None:
        """Precision that `auto` takes on a GPU; None for a CPU, where `auto` compares speeds."""
        return None if self.device.type == "cpu" else half_precision(self.device)

    def supported(self) -> list[str]:
        """Precisions that run at full speed: float32, then the others in the order of `auto`."""
        if self.device.type != "cpu":
            return ["float32"] + ["bfloat16"] * has_bfloat16(self.device) + ["float16"]
        return [
            "float32",
            *(
                compiled_precisions(self.cpu_features)
                or ["bfloat16"] * torch_bfloat16_is_usable(self.cpu_features)
            ),
        ]

    def check(self, dtype: str) -> None:
        """Raise ModelError if the device does not support a precision at full speed."""
        if dtype not in self.supported():
            raise unsupported(dtype, self.device.type, self.supported())

    @torch.inference_mode()
    def build(self, dtype: str) -> Encoder:
        """Build the encoder in a supported precision."""
        if self.device.type == "cpu" and library.best_isa(dtype, self.cpu_features):
            builds = self._with_kernels, self._with_kernels
            return build_in_kernels(dtype, self.cpu_features, self.calibration, *builds)
        linear = torch_linear_factory(self.device, getattr(torch, dtype))
        return self._with_head(self._encoder(linear), linear)

    def build_reference(self) -> Encoder:
        """Build the encoder in float32."""
        return self.build("float32")

    def _with_kernels(self, isa: str, packing: Packing) -> Encoder:
        linear = TensorKernelLinearFactory(KernelLinearFactory(isa, packing))
        return self._with_head(self._encoder(linear), linear)

    def _with_head(self, encoder: Encoder, linear: LinearFactory) -> Encoder:
        return encoder if self.add_head is None else self.add_head(encoder, linear)

    def _encoder(self, linear: LinearFactory) -> TorchEncoder:
        embeddings, device, graphs = self.embeddings, self.device, self.graphs
        layers = TorchLayers(embeddings.config, self.weights, linear, device)
        if self.decoder is not None:
            spec, weights = self.decoder.spec, self.decoder.weights
            decoder = TorchLayers(spec.model.config, weights, linear, device)
            build: Callable[..., TorchEncoder] = pkgutil.resolve_name(spec.encoder)
            return build(embeddings, layers, decoder, spec.chunk_size)
        if graphs is None or device.type != "cuda":
            return TorchEncoder(embeddings, layers)
        plan = layers.plan(RECORDED_SHAPES)
        if not graphs.wanted:
            plan = replace(plan, shapes=(), no_graphs="cuda_graphs is false")
        log_plan(plan, linear.dtype)

        def runner(forward: Forward) -> CudaGraphRunner:
            recorder = CudaGraphRecorder(device)
            return CudaGraphRunner(
                forward, device, recorder, graphs, plan, rehearse=recorder.rehearse
            )

        return TorchEncoder(embeddings, layers, runner)


def plan_on_gpu(spec: ModelSpec, name: str, dtype: str) -> PassPlan | None:
    """Describe the passes of a model on the GPU with a name, or on the first one; None without it.

    name: auto, cuda or cuda:N. dtype: auto for the precision of the GPU.
    """
    if (gpu := usable_gpu(name)) is None:
        return None
    precision = half_precision(gpu) if dtype == "auto" else dtype
    return expected_plan(spec, operators_for(gpu), precision)


def expected_plan(spec: ModelSpec, operators: Operators, dtype: str) -> PassPlan:
    """Describe the passes of a model with a GPU's operators, by its configuration alone."""
    meta = torch.device("meta")
    tensors = {name: torch.empty(shape, device=meta) for name, shape in shapes_of(spec).items()}
    linear = TorchLinearFactory(meta, getattr(torch, dtype))
    plan = TorchLayers(spec.config, tensors, linear, meta, operators).plan(RECORDED_SHAPES)
    return plan if spec.decoder is None else replace(plan, shapes=(), no_graphs="a decoder")


def half_precision(device: torch.device) -> str:
    """Return the precision that `auto` takes on a GPU.

    Large activations, as those of T5 and Gemma, overflow in float16, but not in bfloat16. The
    reference sentences do not fill a GPU, so their time is not meaningful.
    """
    return "bfloat16" if has_bfloat16(device) else "float16"


def log_plan(plan: PassPlan, dtype: torch.dtype) -> None:
    """Log how a GPU computes passes; warn of what is slow."""
    names = ", ".join(f"{name} in {count} layers" for name, count in plan.attention.items())
    precision, about = str(dtype).removeprefix("torch."), plan.as_json()
    log.info(
        "passes in %s: attention %s; kernels %s; CUDA graphs: %s",
        *(precision, names or "none", about["kernels"], about["graphs"]),
    )
    if "padded" in plan.attention:
        log.warning(
            "Attention runs in padded blocks, which are slow and have no CUDA graphs: "
            "no kernel computes this model's scores on this GPU, or Triton is not installed"
        )
    if plan.kernels != "triton":
        log.warning("Each norm, rotation and pooling takes several kernels: %s", plan.kernels)


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
