"""Tests of the classes of a device's errors, by messages that torch and its libraries print."""

import pytest
import torch

from embedwell_models.encoder.device_errors import (
    DeviceFailure,
    device_failure,
    is_device_lost,
    is_out_of_memory,
)
from embedwell_models.errors import ModelError

ADVICE = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the "
    "stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)


def cuda(message: str) -> torch.AcceleratorError:
    return torch.AcceleratorError(f"CUDA error: {message}{ADVICE}")


OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError(),
    torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB"
    ),
    torch.OutOfMemoryError("HIP out of memory. Tried to allocate 2.00 GiB."),
    cuda("out of memory"),
    torch.AcceleratorError("HIP error: out of memory"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("Triton Error [CUDA]: out of memory"),
    RuntimeError("Triton Error [HIP]:  Code: 2, Messsage: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`"),
    RuntimeError("miopenStatusAllocFailed"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you "
        "tried to allocate 4294967296 bytes."
    ),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."),
]
LOST = [
    cuda("an illegal memory access was encountered"),
    cuda("device-side assert triggered"),
    cuda("misaligned address"),
    cuda("unspecified launch failure"),
    cuda("the launch timed out and was terminated"),
    cuda("an illegal instruction was encountered"),
    cuda("invalid program counter"),
    cuda("hardware stack error"),
    cuda("uncorrectable ECC error encountered"),
    cuda("unknown error"),
    cuda("a message of a later CUDA"),
    torch.AcceleratorError("HIP error: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
    RuntimeError("Triton Error [CUDA]: unspecified launch failure"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasGemmEx(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
    RuntimeError("miopenStatusInternalError"),
]
TRANSIENT = [
    cuda("CUDA-capable device(s) is/are busy or unavailable"),
    cuda("system not yet initialized"),
    torch.cuda.DeferredCudaCallError(
        "CUDA call failed lazily at initialization with error: CUDA error: CUDA-capable device(s) "
        "is/are busy or unavailable"
    ),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
]
OTHERS = [
    cuda("no kernel image is available for execution on the device"),
    cuda("invalid device ordinal"),
    cuda("invalid argument"),
    cuda("invalid configuration argument"),
    cuda("too many resources requested for launch"),
    cuda("operation not permitted when stream is capturing"),
    cuda("operation failed due to a previous error during capture"),
    RuntimeError("Triton Error [CUDA]: device kernel image is invalid"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
    RuntimeError("The NVIDIA driver on your system is too old (found version 12040)."),
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
    RuntimeError("out of resource: shared memory, Required: 300000, Hardware limit: 232448."),
    ModelError("the file says: out of memory"),
    OSError(24, "Too many open files"),
]


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        *((error, DeviceFailure.OUT_OF_MEMORY) for error in OUT_OF_MEMORY),
        *((error, DeviceFailure.LOST) for error in LOST),
        *((error, DeviceFailure.TRANSIENT) for error in TRANSIENT),
        *((error, None) for error in OTHERS),
    ],
    ids=lambda each: str(each).partition("\n")[0][:60] if isinstance(each, Exception) else "",
)
def test_an_error_has_the_class_of_its_message(
    error: Exception, failure: DeviceFailure | None
) -> None:
    assert device_failure(error) is failure
    assert is_out_of_memory(error) is (failure is DeviceFailure.OUT_OF_MEMORY)
    # A new process is the remedy of both.
    assert is_device_lost(error) is (failure in (DeviceFailure.LOST, DeviceFailure.TRANSIENT))
