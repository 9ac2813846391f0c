"""Classes of a device's errors, by the messages of torch, Triton and CUDA's libraries.

Nothing here imports torch.
"""

import re
import sys
from enum import Enum
from typing import NamedTuple


class DeviceFailure(Enum):
    """Class of a device's error: what may succeed after it."""

    OUT_OF_MEMORY = "out of memory"
    """A smaller batch in this process, or the same one once memory is released."""

    LOST = "lost"
    """Only another process: every later call of this one fails, too."""

    TRANSIENT = "transient"
    """Only another process, and maybe later: the device is busy or not ready."""


class _Row(NamedTuple):
    failure: DeviceFailure | None
    pattern: re.Pattern[str]


def _row(failure: DeviceFailure | None, *messages: str) -> _Row:
    return _Row(failure, re.compile("|".join(messages), re.IGNORECASE))


# The first row that matches decides. CUDA's own messages follow "CUDA error: ", "HIP error: " or
# "Triton Error [CUDA]: "; its libraries state the names of their constants.
_LIBRARY = r"(CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CUFFT|HIPBLAS)_STATUS_\w*"
_TABLE = (
    _row(
        DeviceFailure.OUT_OF_MEMORY,
        r"out[ _]?of[ _]?memory",
        rf"{_LIBRARY}ALLOC\w*_FAILED",
        r"miopenStatusAllocFailed",
        r"DefaultCPUAllocator: (can't allocate|not enough) memory",
    ),
    _row(
        DeviceFailure.TRANSIENT,
        r"busy or unavailable",  # such as a GPU in exclusive mode
        r"system not yet initialized",  # by NVIDIA's fabric manager
        rf"{_LIBRARY}NOT_INITIALIZED",
    ),
    _row(
        None,  # a fault of the call or of the installation: the device works
        r"invalid device ordinal",
        r"no kernel image is available",
        r"device kernel image is invalid",
        r"invalid (argument|configuration argument|device function|resource handle)",
        r"too many resources requested",
        r"stream is capturing|capture (sequence|invalidated)|during capture",
        r"driver version is insufficient",
        r"unsupported display driver / cuda driver combination",
    ),
    _row(
        DeviceFailure.LOST,
        r"illegal (memory access|instruction)",
        r"invalid program counter",
        r"misaligned address|address space|hardware stack error|device-side assert",
        r"launch (failure|timed out)",
        r"uncorrectable (ECC|NVLink) error",
        r"(CUDA|HIP) error: unknown error",
        r"no (CUDA|ROCm)-capable device is detected",
        rf"{_LIBRARY}(EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
        r"miopenStatus(InternalError|UnknownError)",
    ),
)


def device_failure(error: BaseException) -> DeviceFailure | None:
    """Return the class of an error of a device, or of a lack of memory; None for other errors."""
    if isinstance(error, (MemoryError, *_torch_errors("OutOfMemoryError"))):
        return DeviceFailure.OUT_OF_MEMORY
    if not isinstance(error, (RuntimeError, *_torch_errors("cuda.DeferredCudaCallError"))):
        return None
    for failure, pattern in _TABLE:
        if pattern.search(str(error)):
            return failure
    # An error of CUDA that the table lacks: a restart of the process is the safe way.
    return DeviceFailure.LOST if isinstance(error, _torch_errors("AcceleratorError")) else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is a lack of memory, of the machine or of a GPU."""
    return device_failure(error) is DeviceFailure.OUT_OF_MEMORY


def is_device_lost(error: BaseException) -> bool:
    """Whether an error leaves a GPU unusable in this process."""
    return device_failure(error) in (DeviceFailure.LOST, DeviceFailure.TRANSIENT)


def _torch_errors(name: str) -> tuple[type[BaseException], ...]:
    # Without torch in the process, no error is torch's.
    attribute: object = sys.modules.get("torch")
    for part in name.split("."):
        attribute = getattr(attribute, part, None)
    if isinstance(attribute, type) and issubclass(attribute, BaseException):
        return (attribute,)
    return ()
