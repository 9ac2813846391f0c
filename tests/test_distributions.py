"""The source distribution, the wheel without kernels and the client, as an index gets them."""

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path

import pytest

import hatch_build
from tests.distributions import (
    CLIENT,
    CONSTRAINTS,
    ROOT,
    WITHOUT_COMPILER,
    build,
    new_environment,
    pip,
    site_packages,
    unpack,
)
from tests.service.server import Server

LINK = re.compile(r"\]\(([^)\s]+)\)")
PROGRAM = """
import sys
from embedwell_client import Client
with Client(sys.argv[1]) as client:
    assert client.embed(["Hello, world"]).shape == (1, 384)
"""
BOTH = "import embedwell, embedwell_client; assert embedwell.Client is embedwell_client.Client"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def source(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution, where there is no git."""
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def pure_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the source distribution, built without a compiler."""
    return build("wheel", source, tmp_path_factory.mktemp("pure"), CXX=WITHOUT_COMPILER)


@pytest.fixture(scope="module")
def client_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", CLIENT, tmp_path_factory.mktemp("client-sdist"))


@pytest.fixture(scope="module")
def client_wheel(client_sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the client's source distribution, where the rest of the project is not."""
    folder = unpack(client_sdist, tmp_path_factory.mktemp("client"))
    return build("wheel", folder, tmp_path_factory.mktemp("client-wheel"))


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        [name] = [each for each in file.namelist() if each.endswith(".dist-info/METADATA")]
        return message_from_bytes(file.read(name))


def test_the_source_distribution_has_nothing_that_was_compiled(source: Path) -> None:
    kernels = source / hatch_build.KERNELS
    assert (kernels / "encoder.cpp").exists() and not (source / ".git").exists()
    found = {path.name for path in source.rglob("*") if path.suffix in (".so", ".new", ".pyc")}
    assert not found and not (kernels / hatch_build.LOG).exists()


def test_without_a_compiler_the_wheel_is_for_every_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names(pure_wheel) if name.endswith(".so")]


def test_the_client_is_pure_python_with_the_metadata_of_the_server(
    client_wheel: Path, pure_wheel: Path
) -> None:
    assert client_wheel.name.endswith("-py3-none-any.whl")
    client, server = metadata(client_wheel), metadata(pure_wheel)
    for field in ("Version", "Author-email", "License-Expression", "Requires-Python"):
        assert client[field] == server[field] is not None
    for field in ("Project-URL", "Classifier"):
        assert client.get_all(field) == server.get_all(field) is not None
    package = {name for name in names(client_wheel) if ".dist-info/" not in name}
    assert package == {name for name in names(pure_wheel) if name.startswith("embedwell_client/")}
    assert not [name for name in package if "hatch_build" in name]


def test_the_licence_of_the_client_is_that_of_the_project() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_description_links_into_the_repository_of_this_version(pure_wheel: Path) -> None:
    message = metadata(pure_wheel)
    urls = [each.split(", ") for each in message.get_all("Project-URL", [])]
    repository = dict(urls)["Repository"]
    links = LINK.findall(str(message.get_payload()))
    assert len(links) == len(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 30
    tag = f"v{message['Version']}"
    for link in links:
        if link.startswith(repository):
            view, found, path = link.removeprefix(f"{repository}/").split("/", 2)
            assert found == tag and view == ("raw" if path.endswith(".svg") else "blob")
            assert (ROOT / path.partition("#")[0]).exists()
        else:
            assert re.match(r"https?://", link)


def test_links_that_are_absolute_or_within_the_page_stay() -> None:
    text = "[a](https://example.org) [b](#part) [c\nd](docs/x.md#y) ![e](e.svg)"
    assert hatch_build.with_absolute_links(text, "https://host/us", "v1") == (
        "[a](https://example.org) [b](#part) [c\nd](https://host/us/blob/v1/docs/x.md#y) "
        "![e](https://host/us/raw/v1/e.svg)"
    )


def test_nothing_is_built_for_an_index_before_the_project_has_its_url() -> None:
    project = {"urls": {"Repository": "https://embedwell.example/us"}, "classifiers": ["Typing"]}
    with pytest.raises(ValueError, match=r"embedwell\.example/us stands for the project's own URL"):
        hatch_build.Readme(str(ROOT), {}).update({**project, "version": "1"})


@pytest.mark.needs("pyroma", "twine", "check_wheel_contents")
def test_the_tools_for_packages_find_no_fault(
    sdist: Path, pure_wheel: Path, client_sdist: Path, client_wheel: Path
) -> None:
    settings = ["--config", str(ROOT / "pyproject.toml")]
    client = ["--no-config", "--toplevel", "embedwell_client"]
    every = map(str, (sdist, pure_wheel, client_sdist, client_wheel))
    for command in (
        ["pyroma", "--min", "10", str(sdist)],
        ["pyroma", "--min", "10", str(client_sdist)],
        ["twine", "check", "--strict", *every],
        ["check-wheel-contents", *settings, str(pure_wheel)],
        ["check-wheel-contents", *client, str(client_wheel)],
    ):
        program = str(Path(sys.executable).parent / command[0])
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def client_environment(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the client and its requirements."""
    environment = new_environment(tmp_path_factory.mktemp("client-environment"))
    pip(environment, "install", "-c", CONSTRAINTS, str(client_wheel))
    return environment


def run(environment: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment / "bin" / "python"), "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_client_alone_embeds_with_httpx_and_numpy(
    client_environment: Path, server: Server
) -> None:
    installed = {each.name for each in distributions(path=[str(site_packages(client_environment))])}
    needed = {"httpx", "httpcore", "anyio", "certifi", "h11", "idna", "typing_extensions", "numpy"}
    assert "embedwell-client" in installed and installed <= {"embedwell-client", *needed}
    done = run(client_environment, PROGRAM, server.url)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("last", ["embedwell", "embedwell-client"])
def test_both_distributions_work_in_one_environment_and_either_can_be_repaired(
    last: str, client_environment: Path, pure_wheel: Path, client_wheel: Path
) -> None:
    wheels = {"embedwell": pure_wheel, "embedwell-client": client_wheel}
    [first] = wheels.keys() - {last}
    repair = ("install", "--no-deps", "--force-reinstall")
    for name in (first, last):
        pip(client_environment, *repair, str(wheels[name]))
    assert run(client_environment, BOTH).returncode == 0
    # They share files, as docs/python.md says.
    pip(client_environment, "uninstall", "--yes", last)
    assert "No module named 'embedwell_client'" in run(client_environment, PROGRAM).stderr
    pip(client_environment, *repair, str(wheels[first]))
    program = BOTH if first == "embedwell" else "from embedwell_client import Client"
    assert run(client_environment, program).returncode == 0
