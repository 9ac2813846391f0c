"""Tests of which models are unloaded for others, and of which settings are for torch."""

import pytest

from embedwell.launch.model_engine import ResidentModel
from embedwell.launch.model_engines import (
    idle_models,
    models_to_replace,
    needs_torch,
    seconds_until_check,
)
from embedwell.settings.settings import Settings
from embedwell_models.cpu_backend import library
from embedwell_models.encoder.device import may_be_gpu


def model(
    index: int,
    last_used: float,
    *,
    weight_bytes: int = 10,
    idle_unload: float = 0.0,
    may_unload: bool = True,
) -> ResidentModel:
    return ResidentModel(index, weight_bytes, last_used, idle_unload, may_unload)


def test_a_model_without_requests_is_idle_after_its_time() -> None:
    models = [model(0, 100, idle_unload=30), model(1, 100, idle_unload=31), model(2, 0)]
    assert idle_models(models, 129.9) == []
    assert idle_models(models, 130) == [0]
    assert idle_models(models, 200) == [0, 1], "a time of 0 is never over"


def test_a_model_that_is_kept_or_computes_is_not_idle() -> None:
    assert idle_models([model(0, 0, idle_unload=1, may_unload=False)], 1e6) == []


def test_the_next_check_is_when_a_model_may_be_idle() -> None:
    models = [model(0, 100, idle_unload=30), model(1, 100, idle_unload=31), model(2, 0)]
    assert seconds_until_check(models, 110) == 20
    assert seconds_until_check(models[2:], 110) is None
    computing = model(3, 100, idle_unload=30, may_unload=False)
    assert seconds_until_check([*models, computing], 110) == 1


def test_nothing_is_unloaded_while_there_is_room() -> None:
    assert models_to_replace([model(0, 1), model(1, 2)], 10, limit=30) == []


def test_the_least_recently_used_is_unloaded_first() -> None:
    models = [model(0, 5), model(1, 1), model(2, 3)]
    assert models_to_replace(models, 10, limit=39) == [1]
    assert models_to_replace(models, 20, limit=30) == [1, 2]


def test_no_more_is_unloaded_than_needed() -> None:
    models = [model(0, 1, weight_bytes=25), model(1, 2)]
    assert models_to_replace(models, 10, limit=20) == [0]


def test_models_that_are_kept_or_compute_are_passed_over() -> None:
    models = [model(0, 1, may_unload=False), model(1, 2)]
    assert models_to_replace(models, 10, limit=20) == [1]


def test_there_is_no_room_next_to_models_that_stay() -> None:
    models = [model(0, 1, may_unload=False), model(1, 2)]
    assert models_to_replace(models, 11, limit=20) is None


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
