"""Choice between the compiled kernels and torch for a model, and the backends without torch."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.tables import is_part, is_table
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder_factory import KernelEncoderFactory
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.cpu_backend.support import why_unsupported
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch_shape import PassPlan, RecordedShapes
from embedwell_models.encoder.device import (
    Device,
    has_gpu_file,
    may_be_gpu,
    torch_is_installed,
)
from embedwell_models.encoder.encoder import Inputs, Linear, LinearFactory
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.loading.state_heads import head_of_states
from embedwell_models.model_files.sparse import Splade
from embedwell_models.vectors import Floats

if TYPE_CHECKING:
    from embedwell_models.cpu_backend.heads import KernelSpladeHead
    from embedwell_models.cpu_backend.table_encoder import TableEncoderFactory
    from embedwell_models.encoder.splade import MaskedLMWeights
    from embedwell_models.loading.on_torch import TorchBackend

log = logging.getLogger(__name__)

OUTSIDE_LAYERS = ("patch.", "pool.", "connector.")
"""Prefixes of the tensors of an image encoder before and after its layers."""

_WITHOUT_KERNELS = "a processor or an installation without compiled kernels"
_COMPILE = "compile the kernels with g++ or clang: make kernels, in a checkout"


@dataclass(frozen=True)
class HostLinearFactory(LinearFactory):
    """Factory of layers on a CPU; it imports torch for a layer in float32 that has no kernel.

    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library. dtype:
    precision of the products; kernels for another one than float32 must exist.
    """

    cpu_features: frozenset[str]
    dtype: str = "float32"

    def __call__(
        self, weight: Floats, bias: Floats, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return self._factory(weight, bias, activation, name=name)

    @cached_property
    def _factory(self) -> LinearFactory:
        if (isa := library.best_isa(self.dtype, self.cpu_features)) is not None:
            return KernelLinearFactory(isa, Packing(self.dtype))
        assert self.dtype == "float32"
        from embedwell_models.torch_backend.device import CPU
        from embedwell_models.torch_backend.linear_adapters import device_linear

        return device_linear(CPU)


@dataclass(frozen=True)
class BackendWithoutTorch:
    """Base of the backends without torch.

    reason: why torch takes part; None if it does not. linear: builds float32 layers on a CPU whose
    output rows depend only on their input row. device_linear: builds float32 layers on the device.
    inputs: builds the first step of an encoder. text_encoders: returns the factory of a model's
    text encoder, with its head over states; it fills `graphs` on a GPU that is warm.
    image_encoders: returns the factory of an image encoder.
    """

    cpu_features: frozenset[str]
    linear: LinearFactory

    device = Device("cpu")
    reason = None

    @property
    def device_linear(self) -> LinearFactory:
        return self.linear

    def inputs(self, spec: ModelSpec, weights: Weights) -> InputTables:
        return InputTables.of(spec.config, weights)


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
        add_head = head_of_states(description, weights, _splade_head, "in_kernels")
        return KernelEncoderFactory(weights, inputs, calibration, add_head, self.cpu_features)

    def image_encoders(
        self, weights: Weights, inputs: Inputs, calibration: Calibration
    ) -> KernelEncoderFactory:
        assert isinstance(inputs, InputTables)
        return KernelEncoderFactory(weights, inputs, calibration, None, self.cpu_features)


def _splade_head(
    splade: Splade, weights: "MaskedLMWeights", linear: KernelLinearFactory
) -> "KernelSpladeHead":
    from embedwell_models.cpu_backend.heads import KernelSpladeHead  # for a SPLADE model

    return KernelSpladeHead(splade, weights, linear)


class TableBackend(BackendWithoutTorch):
    """Backend of a table of token vectors on numpy."""

    def text_encoders(
        self,
        description: ModelDescription,
        weights: Weights,
        inputs: Inputs,
        calibration: Calibration,
        graphs: RecordedShapes,
    ) -> "TableEncoderFactory":
        return self.image_encoders(weights, inputs, calibration)

    def image_encoders(
        self, weights: Weights, inputs: Inputs, calibration: Calibration
    ) -> "TableEncoderFactory":
        from embedwell_models.cpu_backend.table_encoder import TableEncoderFactory

        assert isinstance(inputs, InputTables)
        return TableEncoderFactory(inputs, self.cpu_features)


Backend: TypeAlias = "KernelBackend | TableBackend | TorchBackend"
"""Builder of the parts of an encoder on one device, see `BackendWithoutTorch`."""


def choose_device(name: str, device_files: Path = Path("/dev")) -> Device:
    """Return the device for a name: auto (the first GPU, else the CPU), cpu, cuda or cuda:N.

    The log warns of a GPU that needs torch, which is not installed. Raises ModelError if there is
    no such device.
    """
    if not may_be_gpu(name, device_files):
        if name == "auto" and has_gpu_file(device_files):
            log.warning("this machine seems to have a GPU, which is not used: %s", TORCH_MISSING)
        return Device("cpu")
    from embedwell_models.torch_backend.device import resolve_device

    return Device.parse(str(resolve_device(name, device_files=device_files)))


def choose_backend(
    spec: ModelSpec, weights: Weights, device: Device, cpu_features: frozenset[str]
) -> Backend:
    """Choose the kernels if they compute the whole encoder, numpy for a table, otherwise torch.

    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library. Raises
    ModuleNotFoundError if torch is needed and not installed.
    """
    reason = why_torch(spec, weights, device, cpu_features)
    parts = cpu_features, HostLinearFactory(cpu_features)
    if reason is None:
        is_compiled = library.best_isa("float32", cpu_features) is not None
        compiled = is_compiled and not _why_no_kernels(spec, weights)
        return KernelBackend(*parts) if compiled else TableBackend(*parts)
    from embedwell_models.loading.on_torch import TorchBackend

    return TorchBackend(device, reason, *parts)


def why_torch(
    spec: ModelSpec, weights: Weights, device: Device, cpu_features: frozenset[str]
) -> str | None:
    """Return what torch computes of an encoder; None if the kernels or numpy compute all of it."""
    if device.type != "cpu":
        return f"the device {device}"
    if is_table(weights):
        return None
    if library.best_isa("float32", cpu_features) is None:
        return _WITHOUT_KERNELS
    why = _why_no_kernels(spec, weights)
    family = spec.config.family
    owner = f"this {family} model" if family else "the image encoder"
    return f"the layers of {owner} ({why})" if why else None


def _why_no_kernels(spec: ModelSpec, weights: Weights) -> str:
    return "it has a decoder" if spec.decoder else why_unsupported(spec.config, weights)


def why_torch_for_custom_encoder(description: ModelDescription) -> str | None:
    """Return what torch computes of a family with layers of its own; None if it takes no part."""
    family = description.spec.config.family
    return f"the family {family}" if families.named(family).on_torch else None


def expect_torch(
    description: ModelDescription, device: str, cpu_features: frozenset[str]
) -> str | None:
    """Return what torch would compute of a model, by the headers of its files; None for nothing.

    device: auto, cpu, cuda or cuda:N. Raises ModelError for a file that cannot be read.
    """
    if device != "auto" and may_be_gpu(device):
        return f"the device {device}"
    if may_be_gpu(device) and choose_device(device).type != "cpu":
        return "a GPU"
    if families.named(description.spec.config.family).encoder_loader:
        return why_torch_for_custom_encoder(description)
    encoders = [(description.spec, description.encoder)]
    if description.images:
        encoders.append((description.images.encoder, description.image_encoder))
    if description.image_tokens:
        encoders.append((description.image_tokens.encoder, description.encoder))
    reasons = (why_torch_by_headers(*each, Device("cpu"), cpu_features) for each in encoders)
    return next((reason for reason in reasons if reason is not None), None)


def why_torch_by_headers(
    spec: ModelSpec, folder: Path, device: Device, cpu_features: frozenset[str]
) -> str | None:
    """Return what torch computes of an encoder, by the headers of its files; None for nothing."""
    shapes = {
        ours: header.shape
        for theirs, header in weights.headers(folder).items()
        for ours in spec.rename(theirs)
        if not is_part(ours) and not ours.startswith(OUTSIDE_LAYERS)
    }
    return why_torch(spec, _without_memory(shapes), device, cpu_features)


def expect_passes(description: ModelDescription, device: str, dtype: str) -> PassPlan | None:
    """Return how a GPU would compute a model's passes, by its configuration; None without a GPU.

    device: auto, cpu, cuda or cuda:N. dtype: auto for the precision of the GPU.
    """
    custom_encoder = families.named(description.spec.config.family).encoder_loader
    if custom_encoder or not may_be_gpu(device) or not torch_is_installed():
        return None
    from embedwell_models.torch_backend.encoder_factory import plan_on_gpu

    return plan_on_gpu(description.spec, device, dtype)


@contextmanager
def explain_missing_torch(
    description: ModelDescription, device: str, isa: str, kernels: Path = library.FOLDER
) -> Iterator[None]:
    """Load a model of a folder; raises ModelError if that needs torch, which is not installed.

    kernels: the folder of the compiled kernels.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        # What else imports torch is a layer outside the encoder, see HostLinearFactory.
        cpu_features = library.features(isa)
        reason = expect_torch(description, device, cpu_features) or _WITHOUT_KERNELS
        need = f"needs PyTorch for {reason}, and {TORCH_MISSING}"
        missing = reason == _WITHOUT_KERNELS and library.kernels_missing(cpu_features, kernels)
        remedy = f"; or {_COMPILE}" if missing else ""
        raise ModelError(f"{description.path}: {need}{remedy}") from None


def _without_memory(shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
