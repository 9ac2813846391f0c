"""Tests of which settings of a model are for torch."""

import pytest

from embedwell.launch.model_engines import needs_torch
from embedwell.settings.settings import Settings
from embedwell_models.cpu_backend import library
from embedwell_models.encoder.device import may_be_gpu


@pytest.mark.parametrize(
    ("device", "isa", "needed"),
    [
        ("cpu", "auto", False),
        ("cpu", "avx2", False),
        ("cpu", "none", True),
        ("cuda", "auto", True),
        ("cuda:1", "avx2", True),
        ("auto", "auto", may_be_gpu("auto")),
    ],
)
def test_a_gpu_and_no_kernels_are_for_torch(device: str, isa: str, needed: bool) -> None:
    settings = Settings.model_validate({"device": device, "isa": isa})
    assert needs_torch(settings) == (needed or library.best_isa("float32") is None)
