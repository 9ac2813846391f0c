"""Why a GPU cannot be used, and what helps, as one line."""

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import torch

from embedwell_models.encoder.device_errors import DeviceFailure, device_failure

_INDEX = "pip install torch --index-url https://download.pytorch.org/whl/"
_CUDA_12, _CUDA_13 = _INDEX + "cu126", _INDEX + "cu130"
_DRIVERS = {"12": "525", "13": "580"}  # least of NVIDIA's for Linux, by CUDA's major version
_OLDEST, _OLDEST_IN_CUDA_13 = (5, 0), (7, 5)  # capabilities: Maxwell, Turing
_NO_DRIVER = "no NVIDIA driver"
_NONE_SEEN = "No (CUDA|HIP) GPUs are available|no (CUDA|ROCm)-capable device"
_HIDING = ("CUDA_VISIBLE_DEVICES",)
_HIDING_FROM_ROCM = (*_HIDING, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_DRIVER_FAULTS = {  # what torch says of a driver that does not start, and what helps
    "unsupported display driver": "NVIDIA's driver and its libraries have different versions, as "
    "after an upgrade of the driver: restart the machine, and make a container anew",
    "forward compatibility was attempted": "CUDA's compatibility libraries do not support this "
    "GPU: leave them out of LD_LIBRARY_PATH",
    "system not yet initialized": "NVIDIA's fabric manager has not started: start the service "
    "nvidia-fabricmanager",
    "CUDA unknown error": "NVIDIA's driver fails, as it may after a suspend: load its module "
    "nvidia_uvm again, or restart the machine",
}


class TorchBuild(NamedTuple):
    """Build of torch: its version, and that of CUDA; None for another build."""

    version: str
    cuda: str | None

    @classmethod
    def installed(cls) -> Self:
        """Describe the installed torch."""
        return cls(torch.__version__, torch.version.cuda)

    def __str__(self) -> str:
        return f"torch {self.version}" + (f" (CUDA {self.cuda})" if self.cuda else "")


class Card(NamedTuple):
    """A GPU's name and capability."""

    name: str
    capability: tuple[int, int]

    @classmethod
    def find(cls, name: str) -> Self | None:
        """Describe the GPU with a name of torch, such as cuda; None if torch does not know it."""
        try:
            properties = torch.cuda.get_device_properties(torch.device(name).index or 0)
        except (RuntimeError, AssertionError):
            return None
        return cls(properties.name, (properties.major, properties.minor))


def explain(
    error: Exception,
    build: TorchBuild,
    card: Callable[[], Card | None],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return why the first use of a GPU failed, and what helps, in one line.

    card: describes the GPU, if torch knows it. environment: variables that may hide GPUs.
    """
    text = " ".join(str(error).split())
    if driver := re.search(r"driver on your system is too old \(found version (\d+)\)", text):
        return _old_driver(int(driver[1]), build)
    if "no kernel image" in text:
        return _no_code(build, card())
    if "not compiled with CUDA" in text:
        return f"{build} is a build for CPUs; install CUDA's: pip install --force-reinstall torch"
    if _NO_DRIVER in text or re.search(_NONE_SEEN, text):
        return _none_seen(build, {} if _NO_DRIVER in text else environment)
    for message, remedy in _DRIVER_FAULTS.items():
        if message in text:
            return remedy
    return _busy(error) or str(error).strip().partition("\n")[0] or type(error).__name__


def _none_seen(build: TorchBuild, environment: Mapping[str, str]) -> str:
    for name in _HIDING if build.cuda else _HIDING_FROM_ROCM:
        if (value := environment.get(name)) is not None:
            return f"{build} sees no GPU, as {name} is {value!r}; unset it, or name a GPU there"
    if build.cuda is None:
        return f"{build} sees no GPU; give a container /dev/kfd and /dev/dri"
    return (
        f"{build} sees no GPU; install NVIDIA's driver{_least_driver(build)}, and give a "
        "container the GPU (--gpus all)"
    )


def _old_driver(version: int, build: TorchBuild) -> str:
    driver = f"{version // 1000}.{version % 1000 // 10}"  # of CUDA, which the driver supports
    usable = version >= 12_000 and (build.cuda or "").startswith("13.")
    return (
        f"NVIDIA's driver supports CUDA {driver}, too old for {build}; install a driver"
        f"{_least_driver(build)}" + (f", or torch for CUDA 12: {_CUDA_12}" if usable else "")
    )


def _least_driver(build: TorchBuild) -> str:
    least = _DRIVERS.get((build.cuda or "").partition(".")[0])
    return f" ({least} or newer)" if least else ""


def _no_code(build: TorchBuild, card: Card | None) -> str:
    if card is None:
        return f"{build} has no code for it; install another build"
    major, minor = card.capability
    reason = f"{build} has no code for {card.name} (capability {major}.{minor})"
    if build.cuda is None or card.capability < _OLDEST:
        return f"{reason}; use another GPU"
    newer = card.capability >= _OLDEST_IN_CUDA_13
    return f"{reason}; install another build: {_CUDA_13 if newer else _CUDA_12}"


def _busy(error: Exception) -> str:
    match device_failure(error):
        case DeviceFailure.OUT_OF_MEMORY:
            return (
                "its memory is full; end the processes that use it (nvidia-smi lists them), or "
                "name another GPU, such as cuda:1"
            )
        case DeviceFailure.TRANSIENT:
            return (
                "it is busy or not ready; end the process that uses it alone (nvidia-smi lists "
                "them), or try again later"
            )
    return ""
