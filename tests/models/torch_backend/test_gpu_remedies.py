"""Tests of what the log says of a GPU that torch cannot use, by torch's own messages."""

import pytest
import torch

from embedwell_models.torch_backend.gpu_remedies import Card, TorchBuild, explain

CUDA_13, CUDA_12 = TorchBuild("2.13.0+cu130", "13.0"), TorchBuild("2.13.0+cu126", "12.6")
ROCM, CPUS = TorchBuild("2.13.0+rocm7.2", None), TorchBuild("2.13.0+cpu", None)
V100, B200 = Card("Tesla V100-SXM2-16GB", (7, 0)), Card("NVIDIA B200", (10, 0))
K80, T4 = Card("Tesla K80", (3, 7)), Card("Tesla T4", (7, 5))

OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version {}). Please update your GPU "
    "driver by downloading and installing a new version from the URL: "
    "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
    "install a PyTorch version that has been compiled with your version of the CUDA driver."
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx"
)
FAULT = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error {}"
)
NO_CODE = torch.AcceleratorError(
    "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might"
)
CU126 = "pip install torch --index-url https://download.pytorch.org/whl/cu126"


@pytest.mark.parametrize(
    ("error", "build", "card", "parts"),
    [
        (OLD_DRIVER.format(12040), CUDA_13, T4, ["CUDA 12.4, too old", "580", CU126]),
        (OLD_DRIVER.format(11080), CUDA_13, T4, ["CUDA 11.8, too old", "(580 or newer)"]),
        (OLD_DRIVER.format(11080), CUDA_12, T4, ["(CUDA 12.6)", "(525 or newer)"]),
        (NO_CODE, CUDA_13, V100, ["no code for Tesla V100-SXM2-16GB (capability 7.0)", CU126]),
        (NO_CODE, CUDA_12, B200, ["no code for NVIDIA B200 (capability 10.0)", "whl/cu130"]),
        (NO_CODE, CUDA_12, K80, ["no code for Tesla K80", "use another GPU"]),
        (NO_CODE, ROCM, V100, ["rocm7.2 has no code", "use another GPU"]),
        (NO_CODE, CUDA_13, None, ["no code for it"]),
        (AssertionError("Torch not compiled with CUDA enabled"), CPUS, T4, ["a build for CPUs"]),
        (NO_DRIVER, CUDA_13, T4, ["sees no GPU", "(580 or newer)", "--gpus all"]),
        ("No CUDA GPUs are available", CUDA_13, T4, ["sees no GPU", "--gpus all"]),
        ("No HIP GPUs are available", ROCM, None, ["rocm7.2 sees no GPU", "/dev/kfd"]),
        ("HIP error: no ROCm-capable device is detected", ROCM, None, ["/dev/kfd"]),
        (torch.AcceleratorError("CUDA error: out of memory\nmore"), CUDA_13, T4, ["is full", "1"]),
        (torch.OutOfMemoryError("CUDA out of memory."), CUDA_13, T4, ["is full", "nvidia-smi"]),
        (
            torch.cuda.DeferredCudaCallError(
                "CUDA call failed lazily at initialization with error: CUDA error: CUDA-capable "
                "device(s) is/are busy or unavailable\n\nCUDA call was originally invoked at:"
            ),
            *(CUDA_13, T4, ["busy or not ready", "nvidia-smi"]),
        ),
        (
            FAULT.format("803: system has unsupported display driver / cuda driver combination"),
            CUDA_13,
            T4,
            ["different versions", "restart"],
        ),
        (
            FAULT.format("804: forward compatibility was attempted on non supported HW"),
            CUDA_13,
            T4,
            ["compatibility libraries", "LD_LIBRARY_PATH"],
        ),
        (FAULT.format("802: system not yet initialized"), CUDA_13, T4, ["nvidia-fabricmanager"]),
        ("CUDA unknown error - this may be due to", CUDA_13, T4, ["nvidia_uvm"]),
        ("CUDA error: invalid device ordinal\nmore", CUDA_13, T4, ["invalid device ordinal"]),
        (RuntimeError(), CUDA_13, T4, ["RuntimeError"]),
    ],
    ids=str,
)
def test_one_line_says_why_and_what_helps(
    error: Exception | str, build: TorchBuild, card: Card | None, parts: list[str]
) -> None:
    raised = RuntimeError(error) if isinstance(error, str) else error
    line = explain(raised, build, lambda: card, {})
    assert all(part in line for part in parts), line
    assert "\n" not in line and "more" not in line.replace("or more", "")


@pytest.mark.parametrize(
    ("build", "name"), [(CUDA_13, "CUDA_VISIBLE_DEVICES"), (ROCM, "HIP_VISIBLE_DEVICES")]
)
@pytest.mark.parametrize("value", ["", "-1", "7"])
def test_a_variable_that_hides_the_gpus_is_named(build: TorchBuild, name: str, value: str) -> None:
    none = RuntimeError("No CUDA GPUs are available")
    line = explain(none, build, lambda: T4, {name: value})
    assert line.endswith(f"sees no GPU, as {name} is {value!r}; unset it, or name a GPU there")
    no_driver = explain(RuntimeError(NO_DRIVER), CUDA_13, lambda: T4, {name: value})
    assert "install NVIDIA's driver" in no_driver


def test_a_variable_of_rocm_hides_no_gpu_from_a_build_for_cuda() -> None:
    none = RuntimeError("No CUDA GPUs are available")
    assert "install NVIDIA's driver" in explain(
        none, CUDA_13, lambda: T4, {"HIP_VISIBLE_DEVICES": ""}
    )


def test_a_card_that_torch_does_not_know_has_no_name() -> None:
    assert Card.find("cuda:99") is None
