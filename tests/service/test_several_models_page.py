"""The examples of docs/several-models.md, with small models in place of large ones."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedwell.settings.model_settings import model_settings
from embedwell.settings.settings import Settings
from tests.conftest import Folder
from tests.models.cross_encoder import write_cross_encoder
from tests.service.server import SeveralModels

pytestmark = pytest.mark.full

PAGE = Path(__file__).parents[2] / "docs" / "several-models.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^\$ (curl .*)\n(.*)$", TEXT, re.MULTILINE)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the page."""
    [toml] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path_factory.mktemp("page") / "models.toml"
    path.write_text(toml, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def three(
    file: Path, tiny_bert: Folder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SeveralModels]:
    """A server with the models of the page."""
    small = {
        "BAAI/bge-m3": str(tiny_bert()),
        "reranker": str(write_cross_encoder(tmp_path_factory.mktemp("reranker"))),
    }
    models = {
        model.name: {"source": small.get(model.name, model.model), "keep": model.keep}
        for model in model_settings(Settings(models_file=file))
    }
    folder = tmp_path_factory.mktemp("several")
    with SeveralModels(folder, models, admin_key="ADMIN_KEY") as server:
        yield server


def test_the_file_has_every_option(file: Path) -> None:
    models = model_settings(Settings(models_file=file))
    assert [model.keep for model in models] == ["always", "on_demand", "on_demand"]
    assert (models[1].dtype, models[1].threads, models[2].idle_unload) == ("bfloat16", 2, 600)


def test_the_command_names_two_models() -> None:
    [named] = re.findall(r"serve (\S+=.*)", TEXT)
    assert re.findall(r"(\S+)=(\S+)", named) == [
        ("minilm", "all-MiniLM-L6-v2"),
        ("reranker", "BAAI/bge-reranker-base"),
    ]


def test_the_commands_print_what_the_page_says(three: SeveralModels) -> None:
    assert len(EXAMPLES) == 6
    for command, expected in EXAMPLES:
        local = command.replace("localhost:8080", three.url.removeprefix("http://"))
        process = subprocess.run(["bash", "-c", local], capture_output=True, text=True, check=True)
        pattern = re.escape(expected).replace('"…"', ".*?")
        pattern = re.sub(r"(\\-)?0\\\.\d+", r"-?0\\.\\d+", pattern)  # differ with the processor
        assert re.fullmatch(pattern, process.stdout), (command, process.stdout)
