"""The examples of docs/words.md, with the file that the page shows."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from tests.service.local_server import local_server
from tests.service.server import HttpServer

pytestmark = pytest.mark.full

TEXT = (Path(__file__).parents[2] / "docs" / "words.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sh\n(curl .*)\n```\n\n```json\n(.*)\n```", TEXT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted file of the page."""
    folder = tmp_path_factory.mktemp("page")
    content, _ = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    [name, target] = re.findall(r"^embedwell convert (royal\S*) -o (\S+)$", TEXT, re.M)[0]
    (folder / name).write_text(content, encoding="utf-8")
    run("convert", str(folder / name), "-o", str(folder / target))
    return folder / str(target)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder) as server:
        yield server


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_compress_prints_what_the_page_says(folder: Path, tmp_path: Path) -> None:
    [options] = re.findall(r"^embedwell compress royal -o small (.*)$", TEXT, re.M)
    output = run("compress", str(folder), "-o", str(tmp_path / "small"), *options.split())
    _, expected = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert output == f"{expected}{tmp_path / 'small'}\n"


def test_the_page_has_an_example_of_each_question() -> None:
    routes = [re.findall(r"localhost:8080/(\w+)", command)[0] for command, _ in EXAMPLES]
    assert routes == ["neighbors", "analogy", "doesnt_match"]


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[e[0][:40] for e in EXAMPLES])
def test_an_example_prints_what_the_page_says(
    server: HttpServer, command: str, expected: str
) -> None:
    local = command.replace("localhost:8080", server.url.removeprefix("http://"))
    process = subprocess.run(["bash", "-c", local], capture_output=True, text=True, check=True)
    assert rounded(process.stdout) == rounded(expected)


def rounded(text: str) -> Any:
    return json.loads(text, parse_float=lambda number: round(float(number), 4))
