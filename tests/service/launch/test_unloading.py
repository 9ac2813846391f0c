"""Unloading of models that are idle or must make room."""

from embedwell.launch.unloading import ResidentModel, idle_models, models_to_replace


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


def test_there_is_no_room_beside_models_that_stay() -> None:
    models = [model(0, 1, may_unload=False), model(1, 2)]
    assert models_to_replace(models, 11, limit=20) is None
