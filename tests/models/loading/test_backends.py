"""Tests of the choice between the kernels and torch."""

import sys
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder, families
from embedwell_models.checkpoint import weights
from embedwell_models.cpu_backend import library
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.device import Device
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.loading.backends import (
    HostLinearFactory,
    KernelBackend,
    choose_backend,
    choose_device,
    explain_missing_torch,
    why_torch,
)
from tests.conftest import Folder
from tests.models.tiny import write_static_model

CPU = Device("cpu")
LAYERS = "the layers of this bert model (hidden_size is 48, not a multiple of 64)"
needs_kernels = pytest.mark.skipif(
    library.best_isa("float32") is None, reason="no kernels for this processor"
)
COMPILED = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}


@needs_kernels
def test_the_kernels_alone_compute_a_model_that_they_know(tiny_bert: Folder) -> None:
    folder = tiny_bert(**COMPILED)
    spec = families.read(folder)
    arrays = weights.load(folder, spec)
    assert isinstance(choose_backend(spec, arrays, CPU, library.features()), KernelBackend)
    assert Embedder.load(folder, device="cpu", dtype="float32").why_torch is None


@pytest.mark.parametrize(
    ("device", "isa", "reason"),
    [
        (CPU, "none", "a processor or an installation without compiled kernels"),
        (Device("cuda", 1), "auto", "the device cuda:1"),
        pytest.param(CPU, "auto", LAYERS, marks=needs_kernels),
    ],
)
def test_torch_computes_the_rest_and_the_reason_is_told(
    tiny_bert: Folder, device: Device, isa: str, reason: str
) -> None:
    folder = tiny_bert()  # whose width is not a multiple of 64
    spec = families.read(folder)
    arrays = weights.load(folder, spec)
    assert why_torch(spec, arrays, device, library.features(isa)) == reason
    if device == CPU:
        assert Embedder.load(folder, device="cpu", dtype="float32", isa=isa).why_torch == reason


@pytest.mark.parametrize(
    ("device", "isa", "reason"),
    [
        ("cuda:1", "auto", "the device cuda:1"),
        ("cpu", "none", "a processor or an installation without compiled kernels"),
        pytest.param("cpu", "auto", LAYERS, marks=needs_kernels),
    ],
)
def test_where_torch_is_not_installed_the_message_says_what_needs_it(
    tiny_bert: Folder, device: str, isa: str, reason: str
) -> None:
    path = tiny_bert()
    with (
        pytest.raises(ModelError) as raised,
        explain_missing_torch(ModelDescription.read(path), device, isa),
    ):
        raise ModuleNotFoundError(TORCH_MISSING, name="torch")
    assert str(raised.value) == f"{path}: needs PyTorch for {reason}, and {TORCH_MISSING}"


def test_a_table_needs_torch_for_its_later_layers_where_there_are_no_kernels(
    tmp_path: Path,
) -> None:
    description = ModelDescription.read(write_static_model(tmp_path))
    with (
        pytest.raises(ModelError, match="needs PyTorch for a processor or an installation"),
        explain_missing_torch(description, "cpu", "none"),
    ):
        raise ModuleNotFoundError(TORCH_MISSING, name="torch")


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_kernels_that_this_processor_could_run_are_another_remedy(tmp_path: Path, isa: str) -> None:
    description = ModelDescription.read(write_static_model(tmp_path))
    with (
        pytest.raises(ModelError) as raised,
        explain_missing_torch(description, "cpu", isa, kernels=tmp_path),
    ):
        raise ModuleNotFoundError(TORCH_MISSING, name="torch")
    could = library.processor_has_kernels(library.features(isa))
    assert str(raised.value).endswith("make kernels, in a checkout") == could


def test_another_module_that_is_missing_is_a_fault_of_ours(tiny_bert: Folder) -> None:
    description = ModelDescription.read(tiny_bert())
    with (
        pytest.raises(ModuleNotFoundError, match="no_such_module"),
        explain_missing_torch(description, "cpu", "auto"),
    ):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401


def test_the_cpu_is_chosen_without_torch() -> None:
    assert choose_device("cpu") == CPU


def test_the_log_warns_of_a_gpu_that_needs_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto", tmp_path) == CPU and not caplog.records
    (tmp_path / "nvidia0").touch()
    assert choose_device("auto", tmp_path) == CPU
    assert "a GPU, which is not used: PyTorch is not installed: pip install" in caplog.text
    caplog.clear()
    assert choose_device("cpu", tmp_path) == CPU and not caplog.records


@pytest.mark.needs("torch")
def test_the_log_says_why_torch_cannot_use_a_gpu(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, and the test is about one that torch cannot use")
    (tmp_path / "nvidia0").touch()
    assert choose_device("auto", tmp_path) == CPU
    (line,) = caplog.messages
    assert line.startswith("the CPU computes, not the GPU: torch ") and "\n" not in line


@pytest.mark.parametrize(
    "isa",
    [
        pytest.param("auto", marks=needs_kernels),
        pytest.param("none", marks=pytest.mark.needs("torch")),
    ],
)
def test_rows_of_further_layers_do_not_depend_on_each_other(isa: str) -> None:
    noise = np.random.default_rng(3)
    weight, x = (noise.standard_normal(shape).astype(np.float32) for shape in ((50, 70), (9, 70)))
    linear = HostLinearFactory(library.features(isa))
    bias = np.ones(50, dtype=np.float32)
    layer = linear(weight, bias)
    together = layer(x)
    np.testing.assert_allclose(together, x @ weight.T + 1, rtol=1e-4, atol=1e-4)
    assert all(np.array_equal(layer(x[i : i + 1])[0], together[i]) for i in range(9))
