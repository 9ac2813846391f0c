"""Models of the tasks that EMBEDWELL_ADAPTER lists."""

from pathlib import Path
from typing import Any

import pytest

from embedwell.settings.model_settings import expand_adapters
from embedwell.settings.settings import Settings
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.conftest import Folder
from tests.models.families.checkpoint import Case, write
from tests.models.jina_adapters import TASKS, write_sentence_model


def settings(**values: Any) -> Settings:
    return Settings(**values)


def expanded(folder: Path, **values: Any) -> list[tuple[str, list[str]]]:
    """The adapter and the names of each model."""
    models = expand_adapters(settings(**values), folder)
    assert all(path == folder for _, path in models)
    return [(model.adapter, model.names) for model, _ in models]


@pytest.mark.parametrize("adapter", ["auto", "none", "text-matching"])
def test_one_task_is_the_model_itself(adapter: str) -> None:
    before = settings(served_name="a,*", adapter=adapter)
    assert expand_adapters(before, Path("x")) == [(before, Path("x"))]


def test_each_task_has_the_names_of_the_model_and_the_first_these_too() -> None:
    assert expanded(Path("x"), model="org/jina", adapter=" b, a ,b", keep="on_demand") == [
        ("b", ["org/jina:b", "jina:b", "org/jina", "jina"]),
        ("a", ["org/jina:a", "jina:a"]),
    ]
    [model, _] = expand_adapters(settings(adapter="a,b", keep="on_demand"), Path("x"))
    assert model[0].keep == "on_demand"


def test_all_are_those_of_the_model(tmp_path: Path) -> None:
    folder = write_sentence_model(tmp_path)
    models = expanded(folder, served_name="jina", adapter="all")
    assert models == [
        (TASKS[0], ["jina:retrieval.query", "jina"]),
        *((task, [f"jina:{task}"]) for task in TASKS[1:]),
    ]


def test_all_of_an_xmod_are_its_languages(tmp_path: Path) -> None:
    write(Case("xmod", {"languages": ["de_CH", "fr_CH"], "default_language": "fr_CH"}), tmp_path)
    models = expanded(tmp_path, served_name="swiss", adapter="all")
    assert models == [("de_CH", ["swiss:de_CH", "swiss"]), ("fr_CH", ["swiss:fr_CH"])]


@pytest.mark.parametrize("adapter", ["all", "a,b"])
def test_a_model_without_adapters_is_refused_by_the_setting(
    adapter: str, tiny_bert: Folder
) -> None:
    folder = tiny_bert()
    (model, _), *_ = expand_adapters(settings(adapter=adapter), folder)
    with pytest.raises(ModelError, match=f"no adapters; remove EMBEDWELL_ADAPTER={adapter[:1]}"):
        ModelDescription.read(folder, ModelOptions(adapter=model.adapter))


@pytest.mark.parametrize("adapter", ["", "a,", "a,,b"])
def test_an_empty_task_is_refused(adapter: str) -> None:
    with pytest.raises(ValueError, match="a task is empty"):
        settings(adapter=adapter)
