"""The image, as far as it can be checked without building it."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import embedwell
from deploy.requirements import requirements

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ARGUMENTS = dict(re.findall(r"^ARG (\w+)=(.*)$", DOCKERFILE, re.MULTILINE))
PAGES = [
    ROOT / "README.md",
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("benchmarks/**/*.md"),
    *ROOT.glob("deploy/**/*.md"),
]
LABEL = re.compile(r"^org\.opencontainers\.image\.(\w+)=(.+)$")


def git(*arguments: str, folder: Path) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what the labels are taken from."""
    for name in ("deploy/image.sh", "service/embedwell/__init__.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_bytes((ROOT / name).read_bytes())
    git("init", "--quiet", folder=tmp_path)
    git("add", ".", folder=tmp_path)
    git("commit", "--quiet", "--message", "All", folder=tmp_path)
    return tmp_path


def labels(folder: Path) -> dict[str, str]:
    command = ["bash", str(folder / "deploy" / "image.sh"), "labels"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    matches = [LABEL.match(line) for line in lines]
    assert all(matches), lines
    return {match[1]: match[2] for match in matches if match}


def test_the_labels_are_the_version_and_the_commit(checkout: Path) -> None:
    revision = git("rev-parse", "HEAD", folder=checkout)
    assert labels(checkout) == {"version": embedwell.__version__, "revision": revision}
    (checkout / "service" / "embedwell" / "__init__.py").write_text('__version__ = "7.8.9"\n')
    assert labels(checkout) == {"version": "7.8.9", "revision": f"{revision}-dirty"}


def test_without_git_there_is_the_version_alone(checkout: Path) -> None:
    (checkout / ".git").rename(checkout / "not-git")
    assert labels(checkout) == {"version": embedwell.__version__}


@pytest.mark.parametrize(
    "remote",
    [
        "https://git.example/a/b",
        "https://git.example/a/b.git",
        "https://name:token@git.example/a/b.git",
        "git@git.example:a/b.git",
        "ssh://git@git.example/a/b.git",
    ],
)
def test_the_source_is_a_web_address_without_a_token(remote: str, checkout: Path) -> None:
    git("remote", "add", "origin", remote, folder=checkout)
    assert labels(checkout)["source"] == "https://git.example/a/b"


def test_a_remote_in_a_folder_is_no_source(checkout: Path) -> None:
    git("remote", "add", "origin", str(checkout), folder=checkout)
    assert "source" not in labels(checkout)


def test_the_licence_is_that_of_the_package() -> None:
    assert f'image.licenses="{PROJECT["license"]}"' in DOCKERFILE


def test_every_stage_has_the_same_base() -> None:
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", DOCKERFILE, re.MULTILINE)
    names = {name for _, name in stages}
    assert {source for source, _ in stages} <= {"${BASE}", *names}
    assert DOCKERFILE.count(ARGUMENTS["BASE"]) == 1


def test_there_is_no_torch_by_default() -> None:
    assert (ARGUMENTS["TORCH"], ARGUMENTS["TORCH_INDEX"]) == ("none", "")
    assert "index=${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" in DOCKERFILE


def test_the_image_for_a_gpu_has_the_compiler_of_its_kernels() -> None:
    *_, last = DOCKERFILE.split("FROM ${BASE}")
    assert re.search(r'"\$TORCH" = cuda .*\n.*install .* gcc libc6-dev', last)
    assert "TRITON_CACHE_DIR=/tmp/" in last


CPU = "--no-deps --index-url https://download.pytorch.org/whl/cpu torch"


@pytest.mark.parametrize(
    ("torch", "index", "cuda", "asked"),
    [
        ("cpu", "", "None", CPU),
        ("cpu", "https://m.example", "None", "--no-deps --index-url https://m.example torch"),
        ("cuda", "", "'13.0'", "--no-deps torch"),
        ("cuda", "https://m.example", "'12.8'", "--no-deps --index-url https://m.example torch"),
        ("cpu", "", "'13.0'", None),
        ("cuda", "", "None", None),
        ("rocm", "", "None", None),
    ],
)
def test_the_build_of_torch_that_is_asked_for_is_installed_or_refused(
    torch: str, index: str, cuda: str, asked: str | None, tmp_path: Path
) -> None:
    process = install_torch(torch, tmp_path, index=index, cuda=cuda)
    assert (process.returncode == 0) is (asked is not None), process.stderr
    if asked is None:
        assert torch in process.stderr
    else:
        assert (tmp_path / "asked").read_text() == f"install {asked}\n"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_torch_is_installed_where_there_are_kernels(machine: str, tmp_path: Path) -> None:
    assert install_torch("none", tmp_path, machine=machine).returncode == 0
    assert not (tmp_path / "asked").exists()


def test_processors_without_kernels_get_torch(tmp_path: Path) -> None:
    process = install_torch("none", tmp_path, machine="riscv64")
    assert process.returncode == 0
    assert "There are no kernels for riscv64: the image gets torch" in process.stdout
    assert (tmp_path / "asked").read_text() == f"install {CPU}\n"


def install_torch(
    torch: str, folder: Path, *, index: str = "", cuda: str = "None", machine: str = "x86_64"
) -> subprocess.CompletedProcess[str]:
    """Run the Dockerfile's step with a pip that notes what it is asked for.

    cuda: what the torch of the index says of its build.
    """
    (step,) = re.findall(r"^    (case \"\$TORCH.*\n(?: .*\n)*)", DOCKERFILE, re.MULTILINE)
    package = folder / "lib" / "python3.11" / "site-packages" / "torch"
    package.mkdir(parents=True)
    (package / "version.py").write_text(f"debug = False\ncuda: Optional[str] = {cuda}\n")
    programs = {"pip": f'echo "$@" > {folder}/asked', "uname": f"echo {machine}"}
    for name, command in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    return subprocess.run(
        ["sh", "-c", step.replace("/opt/venv", str(folder))],
        env={"PATH": f"{folder}:/usr/bin:/bin", "TORCH": torch, "TORCH_INDEX": index},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_context_has_every_file_that_is_copied() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    (copied,) = re.findall(r"^COPY (pyproject.toml .*) \./$", DOCKERFILE, re.MULTILINE)
    assert set(copied.split()) <= sent
    assert all((ROOT / name).exists() for name in sent)


def test_an_image_has_the_requirements_of_its_extras() -> None:
    optional = PROJECT["optional-dependencies"]
    wanted = requirements(PROJECT, ARGUMENTS["EXTRAS"].split())
    assert wanted == [*PROJECT["dependencies"], *optional["otel"]]
    assert {*optional["bulk"]} < {*requirements(PROJECT, ["ray"])}  # which contains bulk


def test_an_extra_that_there_is_not_is_named() -> None:
    project: dict[str, Any] = {"name": "p", "dependencies": [], "optional-dependencies": {"a": []}}
    with pytest.raises(SystemExit, match=r"no extra 'b' in pyproject\.toml; there are a"):
        requirements(project, ["b"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_publish_a_port_on_this_machine_alone_or_with_a_key(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command in re.findall(r"docker run [^\n`]+", text):
        published = re.findall(r"(?:-p|--publish)[ =](\S+)", command)
        local = all(address.startswith("127.0.0.1:") for address in published)
        assert local or "EMBEDWELL_API_KEY" in command, command


def test_a_build_by_podman_notices_another_wheel() -> None:
    # Its cache compares what is copied, and not what is mounted.
    *_, last = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    hashes, mount = (
        last.find("COPY --from=build /wheels.sha256"),
        last.find("from=build,source=/wheels"),
    )
    assert 0 < hashes < mount and "sha256sum /wheels/*.whl > /wheels.sha256" in DOCKERFILE
