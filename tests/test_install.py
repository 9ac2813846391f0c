"""Installation into an empty environment, next to an application of the user's."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distribution
from pathlib import Path
from threading import Thread
from typing import Self

import pytest

import embedwell
import hatch_build
from embedwell_models.cpu_backend import library
from tests.distributions import (
    CONSTRAINTS,
    ROOT,
    WITHOUT_COMPILER,
    build,
    site_packages,
    unpack,
)

MEGABYTES = 150  # of all that `pip install` brings but torch, without bytecode
APPLICATION = {  # names that many applications have, and that a package must not take
    "models.py": "class Item: ...",
    "service/__init__.py": "class Orders: ...",
    "tests/__init__.py": "",
    "deploy/__init__.py": "",
    "app.py": """
from models import Item
from service import Orders
from embedwell import AsyncClient, Client
import embedwell_client, sys
assert Client is embedwell_client.Client and AsyncClient is embedwell_client.AsyncClient
names = {name.partition(".")[0] for name in sys.modules}
assert not names & {"torch", "fastapi", "pydantic", "tokenizers", "orjson", "embedwell_models"}
with Client(sys.argv[1]) as client:
    assert client.embed(["Hello, world"]).shape == (1, 384)
""",
    "library.py": """
import models, service
from embedwell import Embedder
vectors = Embedder.load("all-MiniLM-L6-v2").embed(["Hello, world"])
assert vectors.shape == (1, 384)
""",
}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout."""
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def source(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def home(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user who has run `make install`, which compiles this processor's kernels."""
    folder = tmp_path_factory.mktemp("home")
    install("make", source, folder, unoptimized_compiler(folder))
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip builds of the source distribution, with the kernels of `home`."""
    use_optimized_kernels(source / hatch_build.KERNELS)
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    environment = {**os.environ, "KERNELS": "compiled"}
    subprocess.run([*pip, "-w", str(target), str(source)], check=True, env=environment)
    [path] = target.glob("*.whl")
    return path


def unoptimized_compiler(folder: Path) -> str:
    """A compiler that takes a sixth of the time; what it compiles is slow."""
    compiler = hatch_build.compiler()
    if compiler is None:
        return WITHOUT_COMPILER
    path = folder / "compiler"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(compiler)} "$@" -O0\n')
    path.chmod(0o755)
    return str(path)


def use_optimized_kernels(folder: Path) -> None:
    """Replace the kernels in a folder by those of this checkout."""
    for path in folder.glob("*.so"):
        shutil.copy(ROOT / hatch_build.KERNELS / path.name, path)


UV, PIPX = (f"{Path(sys.executable).parent}/{name}" for name in ("uv", "pipx"))
WAYS = {  # to have `embedwell` on the PATH, as README and deploy/README name them
    "make": ["make", "install", f"PYTHON={sys.executable}"],
    "uv": [UV, "tool", "install", "."],
    "pipx": [PIPX, "install", "."],
    "uv, index": [UV, "tool", "install", "--index", "{index}", "embedwell"],
    "pipx, index": [PIPX, "install", "--index-url", "{index}", "embedwell"],
}


def install(way: str, source: Path, home: Path, compiler: str, index: str = "") -> None:
    """Install the command for the user of a home. source: the folder to run in."""
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    environment = {
        **os.environ,
        "HOME": str(home),
        "PIP_CACHE_DIR": cache,
        "PIP_COMPILE": "0",  # to bytecode, most of which nothing here imports
        "PIP_CONSTRAINT": CONSTRAINTS,
        "UV_CONSTRAINT": CONSTRAINTS,
        "CXX": compiler,
    }
    command = [part.format(index=index) for part in WAYS[way]]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)


def test_an_installation_for_this_machine_alone_has_its_best_kernels() -> None:
    best = hatch_build.best_isas(library.ISAS, ROOT)
    assert len(best) <= 2 or not library.processor_has_kernels()
    assert library.best_isa("float32") in {*best, None}


def test_for_another_processor_all_kernels_are_compiled() -> None:
    others = hatch_build.ARM if library.ISAS["avx2"] <= library.features() else hatch_build.X86
    assert hatch_build.best_isas(others, ROOT) == [*others]


@pytest.mark.full
def test_the_wheel_has_the_packages_and_runs_with_any_python(source: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    top = {name.partition("/")[0] for name in names}
    files = [*ROOT.glob("models/*/__init__.py"), *ROOT.glob("service/*/__init__.py")]
    packages = {path.parent.name for path in files}
    assert {name for name in top if not name.endswith(".dist-info")} == packages
    libraries = {Path(name).name for name in names if name.endswith(".so")}
    assert bool(libraries) == ("manylinux" in wheel.name)
    assert libraries == {path.name for path in (source / hatch_build.KERNELS).glob("*.so")}
    best = hatch_build.best_isas(library.ISAS, ROOT)
    assert libraries in (set(), {*hatch_build.libraries(best)})
    platform = hatch_build.target(hatch_build.compiler()) if libraries else "any"
    assert wheel.name.endswith(f"-py3-none-{platform.replace('linux', 'manylinux_2_28')}.whl")


@pytest.mark.full
@pytest.mark.needs("auditwheel")
def test_the_kernels_need_no_newer_system_than_the_wheel_says(wheel: Path, tmp_path: Path) -> None:
    if wheel.name.endswith("-any.whl"):
        pytest.skip("no compiler: a wheel without kernels is for every system")
    with_all = Path(shutil.copy(wheel, tmp_path))
    with zipfile.ZipFile(with_all, "a") as file:
        for path in (ROOT / hatch_build.KERNELS).glob("*.so"):  # compiled with this checkout
            if (name := f"embedwell_models/kernels/{path.name}") not in file.namelist():
                file.write(path, name)
    command = [sys.executable, "-m", "auditwheel", "show", str(with_all)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = " ".join(done.stdout.split())
    [least] = re.findall(r'constrains the platform tag to "manylinux_2_(\d+)_\w+"', report)
    assert int(least) <= 28


def test_a_library_that_needs_a_newer_system_is_for_this_one_alone(tmp_path: Path) -> None:
    (tmp_path / "old.so").write_bytes(b"\0GLIBC_2.28\0GLIBCXX_3.4.21\0")
    (tmp_path / "new.so").write_bytes(b"\0GLIBC_2.14\0GLIBC_2.38\0")
    for processor in ("x86_64", "aarch64"):
        system = f"linux_{processor}"
        tag = hatch_build.platform_tag(tmp_path, ["old.so"], system)
        assert tag == f"manylinux_2_28_{processor}"
        assert hatch_build.platform_tag(tmp_path, ["old.so", "new.so"], system) == system
    assert hatch_build.platform_tag(tmp_path, ["old.so"], "macosx_arm64") == "macosx_11_0_arm64"


@pytest.mark.parametrize(
    ("triple", "system"),
    [
        ("x86_64-linux-gnu", "linux_x86_64"),
        ("x86_64-redhat-linux", "linux_x86_64"),
        ("aarch64-unknown-linux-gnu", "linux_aarch64"),
        ("arm64-apple-darwin24.6.0", "macosx_arm64"),
        ("x86_64-apple-darwin24.6.0", None),
        ("arm-linux-gnueabihf", None),
        ("x86_64-w64-mingw32", None),
        ("", None),
    ],
)
def test_the_compiler_says_what_it_compiles_for(
    triple: str, system: str | None, tmp_path: Path
) -> None:
    command = tmp_path / "compiler"
    command.write_text(f'#!/bin/sh\n[ "$*" = "--some -dumpmachine" ] && echo {triple}\n')
    command.chmod(0o755)
    found = hatch_build.target([str(command), "--some"])
    assert (found if found in hatch_build.TARGETS else None) == system


@pytest.fixture(scope="module")
def environment(home: Path) -> Path:
    """The folder of the programs of an environment that has the package and its requirements."""
    folder = home / ".local" / "share" / "embedwell"
    use_optimized_kernels(site_packages(folder) / "embedwell_models" / "kernels")
    return folder / "bin"


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an application with modules of its own."""
    folder = tmp_path_factory.mktemp("application")
    for name, text in APPLICATION.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.full
def test_the_package_brings_no_torch_and_few_megabytes(environment: Path) -> None:
    folder = site_packages(environment.parent)
    assert not (folder / "torch").exists()
    of_venv = {"pip", "setuptools", "pkg_resources"}
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    packages = [path for path in files if path.relative_to(folder).parts[0] not in of_venv]
    size = sum(path.stat().st_size for path in packages)
    assert size < MEGABYTES * 1e6


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        ["embedwell", "serve", "--port", "0"],
        ["python", "-m", "embedwell", "info"],
        ["embedwell", "embed", "models.py", "-o", "out.npy"],
    ],
    ids=" ".join,
)
def test_without_kernels_and_torch_commands_say_what_to_install(
    environment: Path, application: Path, command: list[str]
) -> None:
    done = run(environment, application, command, EMBEDWELL_ISA="none")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    need = "a processor or an installation without compiled kernels, and PyTorch is not installed"
    assert f"needs PyTorch for {need}: pip install torch" in done.stderr.splitlines()[-1]


@pytest.mark.full
def test_without_kernels_torch_computes(environment: Path, application: Path) -> None:
    with torch_in(environment):
        done = run(environment, application, ["embedwell", "info"], EMBEDWELL_ISA="none")
    assert done.returncode == 0 and '"kernels": null' in done.stdout, done.stderr


def run(
    environment: Path, folder: Path, command: list[str], **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / command[0], *command[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ".", **settings},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
def test_what_computes_nothing_needs_no_torch(environment: Path, application: Path) -> None:
    for command in (["embedwell", "--help"], ["embedwell", "pull"], ["embedwell", "inspect"]):
        done = run(environment, application, command)
        assert done.returncode == 0, done.stderr


@pytest.mark.full
@pytest.mark.skipif(library.best_isa("float32") is None, reason="without kernels, torch computes")
def test_server_client_library_and_commands_need_no_torch(
    environment: Path, application: Path
) -> None:
    with served(environment, application) as url:
        done = run(environment, application, ["python", "app.py", url])
        assert done.returncode == 0, done.stderr
    embed = ["embedwell", "embed", "models.py", "-o", "out.npy"]
    for command in (["python", "library.py"], ["python", "-m", "embedwell", "info"], embed):
        done = run(environment, application, command)
        assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_make_installs_the_command_for_a_user(home: Path) -> None:
    assert version(home) == f"embedwell, version {embedwell.__version__}\n"


@pytest.mark.full
@pytest.mark.needs("pipx", "uv")
@pytest.mark.parametrize("way", ["uv", "pipx"])
def test_a_tool_for_commands_installs_ours_for_a_user(
    way: str, source: Path, tmp_path: Path
) -> None:
    install(way, source, tmp_path, WITHOUT_COMPILER)
    assert version(tmp_path) == f"embedwell, version {embedwell.__version__}\n"


class IndexHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder, and sends programs to PyPI for the packages that it lacks."""

    def do_GET(self) -> None:
        if Path(self.translate_path(self.path)).exists():
            super().do_GET()
            return
        self.send_response(302)
        self.send_header("Location", f"https://pypi.org{self.path}")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        if self.path.endswith((".whl", ".tar.gz")):
            self.server.downloads.append(self.path.rpartition("/")[2])  # type: ignore[attr-defined]


class Index(ThreadingHTTPServer):
    """A package index with the files of one package."""

    def __init__(self, folder: Path, *files: Path) -> None:
        package = folder / "simple" / "embedwell"
        package.mkdir(parents=True)
        for file in files:
            shutil.copy(file, package)  # the listing of the folder is the package's page
        super().__init__(("127.0.0.1", 0), partial(IndexHandler, directory=str(folder)))
        self.downloads: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/simple/"

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


@pytest.mark.full
@pytest.mark.needs("pipx", "uv")
@pytest.mark.parametrize("way", ["uv, index", "pipx, index"])
def test_a_tool_for_commands_installs_the_wheel_of_an_index(
    way: str, sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    with Index(tmp_path / "index", wheel, sdist) as index:
        install(way, tmp_path, tmp_path, WITHOUT_COMPILER, index.url)
    assert {*index.downloads} == {wheel.name}  # uv reads its end first
    assert version(tmp_path) == f"embedwell, version {embedwell.__version__}\n"


def version(home: Path) -> str:
    """What the command in a user's home prints."""
    command = [str(home / ".local" / "bin" / "embedwell"), "--version"]
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@contextmanager
def torch_in(environment: Path) -> Iterator[None]:
    """Lend this environment's torch to another one, whose download would take minutes."""
    folder, links = site_packages(environment.parent), list[Path]()
    for name in requirements("torch"):
        files = {file.parts[0] for file in distribution(name).files or []}
        for each in files - {"..", "__pycache__"}:
            source = Path(str(distribution(name).locate_file(each)))
            if not (folder / each).exists():
                (folder / each).symlink_to(source)
                links.append(folder / each)
    yield
    for link in links:
        link.unlink()


def requirements(name: str) -> set[str]:
    """The distributions that one needs, itself included."""
    names, waiting = set[str](), [name]
    while waiting:
        names.add(name := waiting.pop())
        needed = distribution(name).requires or []
        found = [re.split(r"[^\w.-]", need)[0] for need in needed if ";" not in need]
        waiting += [each for each in found if each not in names]
    return names


@contextmanager
def served(environment: Path, folder: Path) -> Iterator[str]:
    """Run `embedwell serve` in a folder; the URL of the server."""
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [environment / "embedwell", "serve", "--port", "0"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": "."},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 300
        while not (match := re.search(r"listens on (http://\S+)", log.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield match[1]
    finally:
        process.terminate()
        assert process.wait(120) == 0
