"""Tests of the options of a model."""

import pytest

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.errors import ModelError


@pytest.mark.parametrize("name", ["auto", "cpu", "cuda", "cuda:0", "cuda:12"])
def test_processors_and_gpus_of_cuda_and_rocm_are_supported(name: str) -> None:
    assert ModelOptions(device=name).device == name


@pytest.mark.parametrize("name", ["mps", "xpu", "xpu:0", "hpu", "cpu:0", "cuda:", "cuda:-1", ""])
def test_other_devices_are_refused_by_name(name: str) -> None:
    with pytest.raises(ModelError, match=f"the device {name!r} is not supported: give auto, cpu"):
        ModelOptions(device=name)
