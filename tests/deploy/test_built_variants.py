"""Builds of the image with PyTorch, from an index of this machine with stand-ins of its wheels."""

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from tests.deploy.containers import (
    KERNEL,
    ROOT,
    Podman,
    free_port,
    installed_podman,
    wait_until_ready,
)
from tests.stub_driver import compile_driver

pytestmark = pytest.mark.image

CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
[VERSION] = [line.removeprefix("torch==") for line in CONSTRAINTS if line.startswith("torch==")]
METADATA = "Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
CUDA_START = """

def _lazy_init():
    import ctypes

    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        raise RuntimeError("Found no NVIDIA driver on your system.") from None
    raise RuntimeError(
        f"The NVIDIA driver on your system is too old (found version {version.value})."
    )
"""
CDI = Path("/var/run/cdi")  # where podman looks for the devices of the machine
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


def run(podman: Podman, command: str, image: str = "embedwell-torch") -> str:
    options = ["--rm", "--no-healthcheck", image]
    return podman("run", *options, "sh", "-c", command).stdout


def test_an_image_has_the_torch_for_cpus(podman: Podman, indexes: Path) -> None:
    arguments = {"TORCH": "cpu", "TORCH_INDEX": "file:///index/cpu", "EXTRAS": ""}
    build(podman, indexes, arguments, "--target", "dependencies")
    said = run(podman, "python -c 'import torch; print(torch.cuda)'; pip freeze")
    assert said.startswith("None\n") and f"torch=={VERSION}" in said
    assert "opentelemetry-sdk" not in said


@pytest.fixture(scope="module")
def gpu_image(podman: Podman, indexes: Path) -> str:
    """An image for GPUs without a model, and with the kernels of one instruction set."""
    arguments = {"TORCH": "cuda", "TORCH_INDEX": "file:///index/cuda", "EXTRAS": "otel bulk"}
    build(podman, indexes, {**arguments, "MODEL": "", "KERNELS": KERNEL})
    podman("tag", "embedwell-torch", "embedwell-gpu")
    return "embedwell-gpu"


def test_an_image_for_gpus_has_a_compiler_and_may_have_no_model(
    podman: Podman, gpu_image: str
) -> None:
    command = f"ls /weights {SITE_PACKAGES}/torch; command -v gcc; embedwell embed --help"
    said = run(podman, command, gpu_image)
    assert "version.py" in said and "include" not in said and "/usr/bin/gcc\n" in said
    assert "all-MiniLM" not in said.partition("Usage:")[0]


@pytest.fixture(scope="module")
def files(
    podman: Podman, gpu_image: str, minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[Path, str]:
    """The default model and a torch, by their paths on this machine: their paths in a container.

    The torch is this machine's, with a start of CUDA that only asks the driver for its version;
    what CUDA's build says of more drivers is in tests/gpu/test_driver.py.
    """
    folder = tmp_path_factory.mktemp("torch")
    ours = Path(torch.__file__).parent
    start = (ours / "cuda" / "__init__.py").read_text(encoding="utf-8") + CUDA_START
    (folder / "cuda.py").write_text(start, encoding="utf-8")
    (folder / "version.py").write_text(f"__version__ = '{VERSION}'\ncuda, hip = '13.0', None\n")
    [packages] = run(podman, f"echo {SITE_PACKAGES}", gpu_image).split()
    return {
        minilm_folder.resolve(): "/model",
        ours.with_name("torchgen"): f"{packages}/torchgen",
        ours: f"{packages}/torch",
        folder / "cuda.py": f"{packages}/torch/cuda/__init__.py",
        folder / "version.py": f"{packages}/torch/version.py",
    }


@pytest.fixture
def on_gpu_machine(files: dict[Path, str]) -> str:
    """Options of a container with a GPU's device file and the files."""
    mounts = " ".join(f"--volume {ours}:{theirs}:ro" for ours, theirs in files.items())
    return f"--no-healthcheck --device /dev/null:/dev/nvidia0 {mounts}"


@pytest.fixture
def described_gpu(files: dict[Path, str], tmp_path: Path) -> Iterator[None]:
    """A GPU that NVIDIA's container toolkit would describe; with it come a driver and the files.

    https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
    """
    if any(CDI.glob("nvidia*")) or any(Path("/etc/cdi").glob("nvidia*")):
        pytest.skip("this machine has a CDI file of its own GPUs, which the test would replace")
    driver = compile_driver(tmp_path, version=12040) / "libcuda.so.1"
    mounted = {driver: "/usr/lib/libcuda.so.1", **files}
    mounts = [
        {"hostPath": str(ours), "containerPath": theirs, "options": ["ro", "bind"]}
        for ours, theirs in mounted.items()
    ]
    node = {"path": "/dev/nvidia0", "hostPath": "/dev/null"}
    device = {"name": "0", "containerEdits": {"deviceNodes": [node], "mounts": mounts}}
    CDI.mkdir(exist_ok=True)
    description = CDI / "embedwell-test.json"
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [device]}
    description.write_text(json.dumps(spec), encoding="utf-8")
    yield
    description.unlink()


def test_the_cpu_serves_where_the_driver_is_too_old_and_the_log_says_what_helps(
    podman: Podman, gpu_image: str, on_gpu_machine: str, tmp_path: Path
) -> None:
    driver = compile_driver(tmp_path, version=12040) / "libcuda.so.1"
    port = free_port()
    options = f"--volume {driver}:/usr/lib/libcuda.so.1:ro --publish 127.0.0.1:{port}:8080"
    command = f"docker run {on_gpu_machine} {options} {gpu_image} serve /model"
    with podman.container(command) as name:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(podman, name, url)
        assert httpx.get(f"{url}/info", timeout=120).json()["engine"]["device"] == "cpu"
        log = podman.logs(name)
        assert "the CPU computes, not the GPU: NVIDIA's driver supports CUDA 12.4" in log
        assert f"too old for torch {VERSION} (CUDA 13.0); install a driver (580 or newer)" in log


def test_a_container_without_a_driver_ends_if_the_gpu_was_named(
    podman: Podman, gpu_image: str, on_gpu_machine: str
) -> None:
    command = ["run", "--rm", *on_gpu_machine.split(), gpu_image, "serve", "/model"]
    done = podman(*command, "--device", "cuda", check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    why = "install NVIDIA's driver (580 or newer), and give a container the GPU (--gpus all)"
    assert why in done.stderr.splitlines()[-1]


@pytest.mark.needs("podman_compose")
def test_compose_gives_the_server_a_gpu(
    podman: Podman, gpu_image: str, described_gpu: None, tmp_path: Path
) -> None:
    image = tmp_path / "image.yaml"
    image.write_text(json.dumps({"services": {"embedwell": {"image": gpu_image}}}))
    compose = [
        str(Path(sys.executable).with_name("podman-compose")),
        "--project-name=embedwell-gpu",
    ]
    for file in ("deploy/compose.yaml", "deploy/compose.gpu.yaml", str(image)):
        compose += ["--file", file]
    name = "embedwell-gpu_embedwell_1"
    try:
        up = ["up", "--detach", "--no-build", "embedwell"]
        podman.run(*compose, *up, environment={"EMBEDWELL_MODEL": "/model"})
        podman("wait", "--condition", "running", name)
        while podman("healthcheck", "run", name, check=False).returncode != 0:
            state = podman("container", "inspect", "--format", "{{.State.Running}}", name)
            assert "true" in state.stdout, podman.logs(name)
        log = podman.logs(name)
        assert "the CPU computes, not the GPU: NVIDIA's driver supports CUDA 12.4" in log
        assert podman("exec", name, "sh", "-c", "touch $TRITON_CACHE_DIR || echo no").stdout == ""
    finally:
        podman.run(*compose, "down", "--volumes")


@pytest.mark.parametrize(
    ("kind", "index", "message"),
    [
        ("rocm", "cpu", "TORCH is none, cpu or cuda, not rocm"),
        ("cpu", "cuda", "has another build of torch than cpu (CUDA: 13.0)"),
        ("cuda", "cpu", "has another build of torch than cuda (CUDA: None)"),
    ],
)
def test_another_torch_than_was_asked_for_ends_the_build(
    kind: str, index: str, message: str, podman: Podman, indexes: Path
) -> None:
    arguments = {"TORCH": kind, "TORCH_INDEX": f"file:///index/{index}"}
    assert message in build(podman, indexes, arguments, "--target", "dependencies", check=False)
