"""Tests of a load onto a GPU whose memory is full, and of the layers after an encoder."""

import logging
from pathlib import Path

import numpy as np
import pytest

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import DeviceUnavailableError
from embedwell_models.loading.backends import HostLinearFactory
from embedwell_models.loading.loaded_model import LoadedModel, _fast_linear
from embedwell_models.precision.measurement_cache import LoadMeasurements
from embedwell_models.precision.trials import Trial
from tests.conftest import Folder
from tests.models.encoder.linear_factories import numbers


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


COMPILED = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
ACCURATE, INACCURATE = (Trial("bfloat16", cosine, cosine) for cosine in (1.0, 0.9))
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


@pytest.mark.skipif(library.best_isa("bfloat16") is None, reason="there is no bfloat16")
@pytest.mark.parametrize(
    ("dtype", "trials", "expected"),
    [
        ("float32", [ACCURATE], "float32"),
        ("bfloat16", [], "bfloat16"),
        ("int8", [ACCURATE], "bfloat16"),
        ("int8", [INACCURATE], "float32"),
        ("int8", [], "float32"),
    ],
    ids=str,
)
def test_layers_after_an_encoder_are_in_bfloat16_if_it_is_fast_and_accurate(
    dtype: str, trials: list[Trial], expected: str, tiny_bert: Folder
) -> None:
    description = ModelDescription.read(tiny_bert(**COMPILED))
    measured = LoadMeasurements(dtype, trials, "", None)
    loaded = LoadedModel.load(description, ModelOptions(device="cpu", dtype=dtype), measured)
    isa = library.best_isa(expected)
    assert isa is not None
    weight, bias, x = numbers(64, 128), numbers(64), numbers(5, 128, seed=2)
    wanted = KernelLinearFactory(isa, Packing(expected))(weight, bias)(x)
    assert np.array_equal(loaded.fast_linear(weight, bias)(x), wanted)


def test_without_kernels_layers_after_an_encoder_in_torchs_bfloat16_are_in_float32() -> None:
    without_kernels = frozenset({"avx512_bf16"})
    linear = HostLinearFactory(without_kernels)
    assert _fast_linear(linear, "bfloat16", [], without_kernels) is linear
