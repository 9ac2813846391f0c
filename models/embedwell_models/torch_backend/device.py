"""Choice of the device that torch computes a model on."""

import logging
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import torch

from embedwell_models.config.model_options import why_unsupported_device
from embedwell_models.encoder.device import has_gpu_file
from embedwell_models.encoder.device_errors import is_device_lost, is_out_of_memory
from embedwell_models.encoder.threads import chosen_thread_count
from embedwell_models.errors import DeviceUnavailableError, ModelError
from embedwell_models.torch_backend.gpu_remedies import Card, TorchBuild, explain

log = logging.getLogger(__name__)

CPU = torch.device("cpu")
_RECENT_AMD = ("gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")  # CDNA 2 to 4, RDNA 3 and 4
# Errors of the first use of a device. torch raises AssertionError in a build for CPUs.
_FAILURES = (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError)


def has_bfloat16(device: torch.device) -> bool:
    """Whether a device is a GPU with units for bfloat16, FlashAttention and Triton.

    They are NVIDIA's from Ampere on, and AMD's from CDNA 2 and RDNA 3 on.
    """
    if device.type != "cuda":
        return False
    properties = torch.cuda.get_device_properties(device)
    architecture = properties.gcnArchName if torch.version.hip else ""
    return is_recent_gpu((properties.major, properties.minor), architecture)


def is_recent_gpu(capability: tuple[int, int], architecture: str = "") -> bool:
    """Whether a GPU has units for bfloat16.

    architecture: AMD's name, such as gfx90a, whose capability is not a number of NVIDIA's; "" for
    an NVIDIA GPU.
    """
    return architecture.startswith(_RECENT_AMD) if architecture else capability >= (8, 0)


@cache
def why_no_triton(device: torch.device) -> str:
    """Return why a device does not run our Triton kernels; "" if it does.

    Triton needs a C compiler, and a cache folder from which libraries may be loaded. Raises errors
    of lacking memory and of a lost device.
    """
    if not has_bfloat16(device):
        return "no GPU from Ampere, CDNA 2 or RDNA 3 on"
    if not find_spec("triton"):  # torch brings it on Linux
        return "Triton is not installed"
    failure = failure_of(partial(_launch_small_kernel, device))
    return f"Triton fails: {failure}" if failure else ""


def failure_of(launch: Callable[[], object]) -> str:
    """Return why a kernel cannot be launched, in one line; "" if it can.

    Raises errors of lacking memory and of a lost device.
    """
    try:
        launch()
    except Exception as error:
        if is_out_of_memory(error) or is_device_lost(error):
            raise
        message, _, _ = str(error).strip().partition("\n")
        return message or type(error).__name__
    return ""


def _launch_small_kernel(device: torch.device) -> None:
    from embedwell_models.torch_backend.triton_kernels import probe

    with current_device(device):
        probe.launch(device)


def current_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one of this thread: Triton launches kernels there, and nowhere else.

    Without that, pinned memory would take memory of the first GPU.
    """
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def runs_triton(device: torch.device) -> bool:
    """Whether a device is a GPU for our Triton kernels."""
    return not why_no_triton(device)


def try_device(name: str) -> torch.device:
    """Return a device after a test computation on it; raises torch's error if it fails.

    Only a computation shows whether torch has code for a GPU.
    """
    with warnings.catch_warnings():  # torch's warnings of several lines; its error says why, too
        warnings.simplefilter("ignore")
        return torch.ones(1, device=name).device


TryDevice = Callable[[str], torch.device]
"""Function such as `try_device`."""


def resolve_device(
    name: str, try_device: TryDevice = try_device, device_files: Path = Path("/dev")
) -> torch.device:
    """Return the device for a name: auto (the first GPU, else the CPU), cpu, cuda or cuda:N.

    If auto cannot use the GPU of the machine, the log says why. device_files: those of a Linux
    system, which tell whether there is one.

    In this process, products in float32 are exact from then on, torch uses the number of threads
    that was set for the kernels, and on a GPU cuDNN's attention is off.

    Raises ModelError if there is no such device, or if it is not supported, and
    DeviceUnavailableError if it may become available later.
    """
    if why := why_unsupported_device(name):
        raise ModelError(why)
    device = _automatic(try_device, device_files) if name == "auto" else _named(name, try_device)
    # A container image may enable TF32. On a CPU, the same option lets oneDNN use bfloat16.
    torch.set_float32_matmul_precision("highest")
    if (threads := chosen_thread_count()) is not None:  # torch may have been loaded since then
        torch.set_num_threads(threads)
    if device.type == "cuda":
        # cuDNN needs a plan for each batch shape, which takes tens of milliseconds and memory.
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def _automatic(try_device: TryDevice, device_files: Path) -> torch.device:
    try:
        return try_device("cuda")
    except _FAILURES as error:
        if has_gpu_file(device_files):
            log.warning("the CPU computes, not the GPU: %s", _why_unusable("cuda", error))
        return CPU


def _named(name: str, try_device: TryDevice) -> torch.device:
    try:
        return try_device(name)
    except _FAILURES as error:
        passes = is_out_of_memory(error) or is_device_lost(error)
        kind = DeviceUnavailableError if passes else ModelError
        why = _why_unusable(name, error)
        gpus = torch.cuda.device_count()
        raise kind(
            f"device {name!r} is not available: {why} (GPUs that torch sees: {gpus})"
        ) from None


def _why_unusable(name: str, error: Exception) -> str:
    return explain(error, TorchBuild.installed(), partial(Card.find, name))


def usable_gpu(name: str, try_device: TryDevice = try_device) -> torch.device | None:
    """Return the GPU for a name (auto, cuda or cuda:N); None if torch cannot use it."""
    try:
        return try_device("cuda" if name == "auto" else name)
    except _FAILURES:
        return None


def gpu_kind(name: str, try_device: TryDevice = try_device) -> str:
    """Describe the kind of GPU with a name (auto, cuda or cuda:N); "" if torch cannot use it."""
    if (gpu := usable_gpu(name, try_device)) is None:
        return ""
    return kind_of(torch.cuda.get_device_properties(gpu))


class CardProperties(Protocol):
    """The properties of a GPU by which its kind is known; each card also has a UUID."""

    name: str
    major: int
    minor: int
    total_memory: int


def kind_of(card: CardProperties) -> str:
    """Describe what the cards of a kind have in common: what is measured on one holds for all."""
    return f"{card.name} {card.major}.{card.minor} {card.total_memory}"
