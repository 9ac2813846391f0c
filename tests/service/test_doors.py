"""Commands and routes by name, also of other packages, as on docs/developers/extend.md."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from embedwell import doors
from embedwell.cli.commands import main
from tests.service.responses import error
from tests.service.server import Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "developers" / "extend.md").read_text(encoding="utf-8")
TEXTS = ["a harbour", "ships"]


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def install(environment: Path, name: str, module: str, entry_points: str) -> None:
    """Write a module of another package, and its entry points, as pip does."""
    metadata = environment / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (environment / f"{name}.py").write_text(module, encoding="utf-8")
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def of_toml(text: str) -> str:
    """Entry points of a pyproject.toml as those of an installed package."""
    text = text[text.index("[project.entry-points") :]
    return text.replace("project.entry-points.", "").replace('"', "")


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    install(tmp_path, "acme_centroid", block("python"), of_toml(block("toml")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    yield tmp_path
    sys.modules.pop("acme_centroid", None)


def test_a_package_adds_a_route_and_a_command(acme: Path, minilm_folder: Path) -> None:
    with Server(acme / "log") as server:
        server.wait_ready()
        response = server.post("/centroid", {"texts": TEXTS})
        assert response.status_code == 200 and int(response.headers["x-tokens"]) > 4
        assert "/centroid" in server.client.get("/openapi.json").json()["paths"]
        for texts, code, index in (["a", 1], "invalid_request", 1), ([], "no_input", None):
            fault = error(server.post("/centroid", {"texts": texts}), 400)
            assert (fault["code"], fault["param"], fault["index"]) == (code, "texts", index)
        embedded = np.array(server.post("/embed", {"inputs": TEXTS}).json())
    np.testing.assert_allclose(response.json(), embedded.mean(axis=0), atol=1e-6)
    assert "Print the average of the vectors" in CliRunner().invoke(main, ["--help"]).output
    result = CliRunner().invoke(main, ["centroid", *TEXTS])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(json.loads(result.output), response.json(), atol=1e-6)


BROKEN = "[embedwell.commands]\nbroken = acme_broken:command\n[embedwell.routes]\nbroken = {0}\n"


def test_a_broken_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "acme_broken", "import acme_missing", BROKEN.format("acme_broken:router"))
    monkeypatch.syspath_prepend(tmp_path)
    assert "Cannot be imported." in CliRunner().invoke(main, ["--help"]).output
    result = CliRunner().invoke(main, ["broken", "--option", "1"])
    problem = "of acme_broken (acme_broken:{}) cannot be imported: "
    missing = "ModuleNotFoundError(\"No module named 'acme_missing'\"); "
    advice = "repair or uninstall acme_broken"
    assert result.exit_code == 1
    expected = f"embedwell.commands 'broken' {problem.format('command')}{missing}{advice}"
    assert expected in " ".join(result.output.split())
    with pytest.raises(doors.ExtensionError, match=r"embedwell\.routes 'broken' of acme_broken"):
        [*doors.load_extension_routes()]


def test_a_server_with_a_broken_package_ends_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm_folder: Path
) -> None:
    install(tmp_path, "acme_broken", "import acme_missing", BROKEN.format("acme_broken:router"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = Server(tmp_path / "log")
    server.launch()
    assert server.process.wait(120) == 1
    assert "embedwell.routes 'broken' of acme_broken (acme_broken:router) cannot be" in server.log
    assert "Traceback" not in server.log


UNPREPARED = """
from contextlib import asynccontextmanager
from fastapi import APIRouter

@asynccontextmanager
async def lifespan(app):
    raise ConnectionError("the package's database does not answer")
    yield

def router(server):
    return APIRouter(lifespan=lifespan)
"""


@pytest.mark.full
def test_a_server_ends_if_a_package_cannot_be_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm_folder: Path
) -> None:
    entry = "[embedwell.routes]\nunprepared = acme_unprepared:router\n"
    install(tmp_path, "acme_unprepared", UNPREPARED, entry)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = Server(tmp_path / "log")
    server.launch()
    try:
        assert server.process.wait(60) == 1
    finally:
        server.process.kill()
    assert "the package's database does not answer" in server.log
    assert "started 5 times and was never ready" in server.log


SERVER = """
import asyncio, sys, httpx
from pathlib import Path
from embedwell.app import create_app
from embedwell.compute.engine_session import EngineSession
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.settings.settings import Settings

def app(settings):
    model = InheritedModel(settings, Path(sys.argv[1]), 0, rows=1, counters_fd=0, connect_fd=0)
    engine = EngineSession(model.connect_engine, SharedCounters.private())
    return create_app(InheritedServer(settings, [model], 0, []), [engine])

async def status(app):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/v1/files")).status_code

def wings():
    names = {name.partition(".")[0] for name in sys.modules}
    wings = ("batches", "bulk", "classic", "classic_service", "lab")
    return sorted(names & {f"embedwell_{wing}" for wing in wings})
"""


@pytest.mark.parametrize(
    "program",
    [
        "it = app(Settings()); assert not wings(); assert asyncio.run(status(it)) == 403; "
        "assert wings() == ['embedwell_batches']",
        "app(Settings(batch_folder=Path(sys.argv[2]))); assert wings() == ['embedwell_batches']",
    ],
)
def test_a_server_imports_batches_when_it_needs_them(
    program: str, minilm_folder: Path, tmp_path: Path
) -> None:
    code = f"{SERVER}\n{program}"
    subprocess.run([sys.executable, "-c", code, minilm_folder, tmp_path], check=True)


SAME_PATH = """
from embedwell.routes.common.body import Body
from embedwell.routes.common.router import RequestDep, api_router

def router(server):
    routes = api_router("compare")

    @routes.post("/embed", include_in_schema=False)
    async def embed(context: RequestDep, body: Body) -> list[float]:
        raise AssertionError("the other package's route was called")

    return routes
"""


def test_an_own_path_has_precedence_wherever_it_is_called_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minilm_folder: Path
) -> None:
    entry = "[embedwell.routes]\nsame = acme_same:router\n"
    install(tmp_path, "acme_same", SAME_PATH, entry)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    program = f"""{SERVER}
async def refused(app):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        responses = [await client.post(path, json={{}}) for path in ("/embed", "/invocations")]
        return [response.json()["param"] for response in responses]

assert asyncio.run(refused(app(Settings()))) == ["inputs", "inputs"]
"""
    arguments = [sys.executable, "-c", program, str(minilm_folder)]
    done = subprocess.run(arguments, check=True, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "POST /embed of acme_same is ignored: another router has this path\n"


def test_an_own_command_has_precedence_and_imports_no_other(tmp_path: Path) -> None:
    install(
        tmp_path, "acme_broken", "import acme_missing", "[embedwell.commands]\npull = acme_broken:a"
    )
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from embedwell.cli.commands import main\n"
        "main(['pull', '--help'], standalone_mode=False)\n"
        "others = {'acme_broken', 'embedwell.cli.serve', 'embedwell_lab', 'embedwell_bulk'}\n"
        "assert not others & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
