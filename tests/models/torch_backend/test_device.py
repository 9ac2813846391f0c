"""Tests of the device that torch computes a model on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from embedwell_models.encoder.threads import set_thread_count
from embedwell_models.errors import DeviceUnavailableError, ModelError
from embedwell_models.torch_backend.device import (
    current_device,
    failure_of,
    gpu_kind,
    is_recent_gpu,
    kind_of,
    resolve_device,
    usable_gpu,
)


def test_auto_is_a_gpu_where_there_is_one() -> None:
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["mps", "xpu:0", "nonsense"])
def test_a_device_whose_copies_cannot_be_waited_for_is_refused_before_it_is_used(name: str) -> None:
    def use(name: str) -> torch.device:
        raise AssertionError(name)

    with pytest.raises(ModelError, match=f"the device '{name}' is not supported: give auto, cpu"):
        resolve_device(name, use)


@pytest.mark.parametrize("name", ["cuda:99"])
def test_a_device_that_is_not_there_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(
        ModelError, match=f"device '{name}' is not available: .* torch sees: [0-9]+"
    ) as no:
        resolve_device(name)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize(("name", "enabled"), [("cuda", False), ("cpu", True)])
def test_attention_of_cudnn_is_off_on_a_gpu(name: str, enabled: bool) -> None:
    cudnn_enabled: Callable[[], bool] = torch.backends.cuda.cudnn_sdp_enabled
    before = cudnn_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        resolve_device(name, torch.device)
        assert cudnn_enabled() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.fixture
def inexact() -> Iterator[None]:
    """Let products be rounded, as the environment of some images does, and restore all."""
    precision, threads = torch.get_float32_matmul_precision(), torch.get_num_threads()
    cudnn: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(precision)
    torch.backends.cuda.enable_cudnn_sdp(cudnn)
    set_thread_count(threads)


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_products_are_exact_on_every_device(name: str, inexact: None) -> None:
    resolve_device(name, torch.device)
    assert torch.get_float32_matmul_precision() == "highest"
    # oneDNN's own option, which a CPU follows
    assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"  # type: ignore[attr-defined]


def test_torch_takes_the_number_of_threads_that_was_set_before_it_was_loaded(
    inexact: None,
) -> None:
    set_thread_count(3)
    torch.set_num_threads(1)  # as if it had just been loaded
    resolve_device("cpu")
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    ("capability", "architecture", "recent"),
    [
        ((7, 5), "", False),
        ((8, 0), "", True),
        ((12, 0), "", True),
        ((9, 0), "gfx906:sramecc+:xnack-", False),  # as the capability of a H100
        ((9, 0), "gfx90a:sramecc+:xnack-", True),
        ((9, 4), "gfx942", True),
        ((10, 3), "gfx1030", False),
        ((11, 0), "gfx1100", True),
        ((12, 0), "gfx1201", True),
    ],
)
def test_the_capability_of_an_amd_gpu_is_not_a_number_of_nvidias(
    capability: tuple[int, int], architecture: str, recent: bool
) -> None:
    assert is_recent_gpu(capability, architecture) == recent


def test_a_gpu_that_torch_cannot_use_has_no_kind() -> None:
    assert bool(gpu_kind("auto")) == torch.cuda.is_available()
    old = Broken(RuntimeError("The NVIDIA driver on your system is too old"))
    assert not gpu_kind("cuda", old) and usable_gpu("auto", old) is None
    assert usable_gpu("auto", torch.device) == torch.device("cuda")


@dataclass
class Card:
    """Properties of a GPU, as torch has them."""

    name: str = "NVIDIA H100"
    major: int = 9
    minor: int = 0
    total_memory: int = 80 << 30
    uuid: str = "GPU-1"


def test_cards_of_a_kind_differ_in_their_uuid_alone() -> None:
    card = Card()
    assert kind_of(card) == kind_of(replace(card, uuid="GPU-2"))
    part = replace(card, name="NVIDIA H100 MIG 1g.10gb", total_memory=10 << 30)
    others = [replace(card, minor=1), replace(card, total_memory=94 << 30), part]
    assert len({kind_of(each) for each in [card, *others]}) == 4


class Broken:
    """A device that fails when it is used."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, name: str) -> torch.device:
        raise self.error


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("no kernel image is available for execution on the device", "has no code for it"),
        ("invalid device ordinal", "invalid device ordinal"),
    ],
)
def test_a_gpu_that_will_never_do_is_refused(what: str, why: str) -> None:
    broken = Broken(torch.AcceleratorError(f"CUDA error: {what}\nmore"))
    with pytest.raises(ModelError, match=why) as raised:
        resolve_device("cuda", broken)
    assert type(raised.value) is ModelError and "more" not in str(raised.value)


PASSING = [
    torch.OutOfMemoryError("CUDA out of memory"),
    torch.AcceleratorError("CUDA error: out of memory\nmore"),
    torch.AcceleratorError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nmore"),
]
LASTING = [
    RuntimeError("The NVIDIA driver on your system is too old (found version 12040). Update it"),
    torch.AcceleratorError("CUDA error: no kernel image is available for execution\nmore"),
    AssertionError("Torch not compiled with CUDA enabled"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_a_gpu_that_may_do_later_is_no_wrong_setting(error: Exception) -> None:
    with pytest.raises(DeviceUnavailableError, match="device 'cuda' is not available") as raised:
        resolve_device("cuda", Broken(error))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", [*PASSING, *LASTING], ids=str)
def test_auto_is_the_cpu_where_the_gpu_cannot_be_used_and_one_line_says_why(
    error: Exception, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert resolve_device("auto", Broken(error), tmp_path) == torch.device("cpu")
    assert not caplog.records  # without a GPU, none is missed
    (tmp_path / "nvidia0").touch()
    assert resolve_device("auto", Broken(error), tmp_path) == torch.device("cpu")
    (line,) = caplog.messages
    assert line.startswith("the CPU computes, not the GPU: ") and "; " in line and "\n" not in line


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("Failed to find C compiler.\nMore"), "Failed to find C compiler."),
        (PermissionError(13, "Permission denied", "/x"), "[Errno 13] Permission denied: '/x'"),
        (ImportError("failed to map segment"), "failed to map segment"),
        (AssertionError(), "AssertionError"),
    ],
    ids=str,
)
def test_the_reason_is_known_where_triton_cannot_compile(error: Exception, reason: str) -> None:
    def launch() -> None:
        raise error

    assert failure_of(launch) == reason
    assert not failure_of(lambda: None)


def test_a_lack_of_memory_is_not_blamed_on_triton() -> None:
    def launch() -> None:
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        failure_of(launch)


def test_a_processor_needs_no_current_device() -> None:
    with current_device(torch.device("cpu")) as device:
        assert device is None
