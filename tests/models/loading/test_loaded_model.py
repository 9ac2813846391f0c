"""Tests of a load onto a GPU whose memory other processes fill."""

import logging
from pathlib import Path

import pytest

from embedwell_models.errors import DeviceUnavailableError
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_options import ModelOptions
from embedwell_models.precision.measurement_cache import LoadMeasurements
from tests.conftest import Folder


class OnFullGpu(LoadedModel):
    """Model whose load fails on every device but the CPU."""

    error: Exception

    @classmethod
    def _load(
        cls,
        description: ModelDescription,
        options: ModelOptions,
        measured: LoadMeasurements | None = None,
    ) -> LoadedModel:
        if options.device != "cpu":
            raise cls.error
        return super()._load(description, options, measured)


FULL = RuntimeError("Triton Error [CUDA]: out of memory")


@pytest.mark.parametrize("error", [FULL, DeviceUnavailableError("its memory is full")])
def test_auto_loads_on_the_cpu_and_one_line_says_why(
    error: Exception, tiny_bert: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    options = ModelOptions(dtype="float32", pooling="mean")
    OnFullGpu.error, description = error, ModelDescription.read(tiny_bert(), options)
    loaded = OnFullGpu.load(description, options)
    assert str(loaded.device) == "cpu" and loaded.replaces_gpu
    (line,) = (each.message for each in caplog.records if each.levelno == logging.WARNING)
    assert line.startswith("the CPU computes, not the GPU: ") and "\n" not in line
    on_cpu = ModelOptions(device="cpu", dtype="float32")
    assert not LoadedModel.load(description, on_cpu).replaces_gpu


@pytest.mark.parametrize("error", [FULL, DeviceUnavailableError("its memory is full")])
def test_a_gpu_that_is_named_is_not_replaced(error: Exception, tiny_bert: Folder) -> None:
    OnFullGpu.error = error
    with pytest.raises(DeviceUnavailableError) as raised:
        OnFullGpu.load(ModelDescription.read(tiny_bert()), ModelOptions(device="cuda:0"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes."),
        RuntimeError("negative dimension"),
    ],
    ids=repr,
)
def test_another_error_stays(error: Exception, tiny_bert: Folder, tmp_path: Path) -> None:
    OnFullGpu.error = error
    with pytest.raises(type(error)):
        OnFullGpu.load(ModelDescription.read(tiny_bert()), ModelOptions())
