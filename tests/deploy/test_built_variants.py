"""Builds of the image with PyTorch, from an index of this machine with stand-ins of its wheels."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.containers import KERNEL, ROOT, Podman, installed_podman

pytestmark = pytest.mark.image

CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
[VERSION] = [line.removeprefix("torch==") for line in CONSTRAINTS if line.startswith("torch==")]
METADATA = "Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SITE_PACKAGES = "/opt/venv/lib/python3*/site-packages"


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with installed_podman("variants") as podman:
        # No other index has a torch for these builds.
        podman.environment |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}
        podman.environment["IMAGE"] = "embedwell-torch"
        yield podman


def write_torch(index: Path, cuda: str) -> None:
    """Write an index with a torch that only says which CUDA it is for."""
    folder = index / "torch"
    folder.mkdir(parents=True)
    info = f"torch-{VERSION}.dist-info"
    files = {
        "torch/__init__.py": "from torch.version import cuda\n",
        "torch/version.py": f"debug = False\ncuda: str | None = {cuda}\n",
        "torch/include/header.h": "",
        f"{info}/METADATA": METADATA.format(version=VERSION),
        f"{info}/WHEEL": WHEEL,
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    wheel = folder / f"torch-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            file.writestr(name, content)
    (folder / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two indexes, cpu and cuda."""
    folder = tmp_path_factory.mktemp("indexes")
    write_torch(folder / "cpu", "None")
    write_torch(folder / "cuda", "'13.0'")
    return folder


def build(
    podman: Podman, indexes: Path, given: dict[str, str], *options: str, check: bool = True
) -> str:
    """Build an image with some arguments; what the build printed."""
    arguments = [f"--build-arg={name}={value}" for name, value in given.items()]
    # Always the same folder in the build, so that an unchanged step is not repeated.
    return podman.build(f"--volume={indexes}:/index:ro", *arguments, *options, check=check)


def run(podman: Podman, command: str) -> str:
    options = ["--rm", "--no-healthcheck", "embedwell-torch"]
    return podman("run", *options, "sh", "-c", command).stdout


def test_an_image_has_the_torch_for_cpus(podman: Podman, indexes: Path) -> None:
    arguments = {"TORCH": "cpu", "TORCH_INDEX": "file:///index/cpu", "EXTRAS": ""}
    build(podman, indexes, arguments, "--target", "dependencies")
    said = run(podman, "python -c 'import torch; print(torch.cuda)'; pip freeze")
    assert said.startswith("None\n") and f"torch=={VERSION}" in said
    assert "opentelemetry-sdk" not in said


def test_an_image_for_gpus_has_a_compiler_and_may_have_no_model(
    podman: Podman, indexes: Path
) -> None:
    arguments = {"TORCH": "cuda", "TORCH_INDEX": "file:///index/cuda", "EXTRAS": "otel bulk"}
    build(podman, indexes, {**arguments, "MODEL": "", "KERNELS": KERNEL})
    said = run(podman, f"ls /weights {SITE_PACKAGES}/torch; command -v gcc; embedwell embed --help")
    assert "version.py" in said and "include" not in said and "/usr/bin/gcc\n" in said
    assert "all-MiniLM" not in said.partition("Usage:")[0]


@pytest.mark.parametrize(
    ("torch", "index", "message"),
    [
        ("rocm", "cpu", "TORCH is none, cpu or cuda, not rocm"),
        ("cpu", "cuda", "has another build of torch than cpu (CUDA: 13.0)"),
        ("cuda", "cpu", "has another build of torch than cuda (CUDA: None)"),
    ],
)
def test_another_torch_than_was_asked_for_ends_the_build(
    torch: str, index: str, message: str, podman: Podman, indexes: Path
) -> None:
    arguments = {"TORCH": torch, "TORCH_INDEX": f"file:///index/{index}"}
    assert message in build(podman, indexes, arguments, "--target", "dependencies", check=False)
