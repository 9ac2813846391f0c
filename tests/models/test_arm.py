"""The kernels for ARM64, compiled here and tested under an emulator.

A few tests: the emulator takes a hundred times as long, most of it for torch.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from hatch_build import TARGETS
from tests.models.built import ALIKE
from tests.models.checkout_copy import compile_copy, copy_checkout
from tests.programs import program

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-arm"  # which .ci/arm makes
BACKEND = "tests/models/cpu_backend"
PRODUCTS = "rounded_as or largest_integers or that_sum_alike or exact_as"
KINDS = ["neon-float32", "dotprod-int8", "mmla-bfloat16"]
BY_PROCESSOR = {"cortex-a72": "neon None None", "neoverse-n1": "dotprod None dotprod"}
CHOICE = (
    "from embedwell_models.cpu_backend.library import best_isa\n"
    "print(*map(best_isa, ('float32', 'bfloat16', 'int8')))"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout whose kernels are those for ARM64."""
    compiler = program("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu")
    program("qemu-aarch64", "qemu-user")
    if not (PYTHON / "ready").exists():
        pytest.skip("no Python for ARM64: `.ci/arm` downloads one")
    folder = tmp_path_factory.mktemp("arm")
    copy_checkout(folder)
    kernels = folder / "models" / "embedwell_models" / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", compiler)
        isas = TARGETS["linux_aarch64"]
        # As with clang: one of those that share their code.
        output = compile_copy(kernels, isas, [name for name in isas if name not in ALIKE])
    assert "warning:" not in output
    return folder


def run(folder: Path, *arguments: str, processor: str = "max") -> str:
    """What a Python for ARM64 prints."""
    paths = (folder, folder / "models", folder / "service", PYTHON / "site")
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths)), "OMP_NUM_THREADS": "1"}
    emulator = ["qemu-aarch64", "-L", str(PYTHON), "-cpu", processor]
    found = subprocess.run(
        [*emulator, str(PYTHON / "usr" / "bin" / "python3.11"), *arguments],
        cwd=folder,
        env={name: value for name, value in environment.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-5000:]
    return found.stdout


@pytest.mark.compiler
@pytest.mark.parametrize("processor", BY_PROCESSOR)
def test_the_kernels_that_a_processor_can_run_are_chosen(checkout: Path, processor: str) -> None:
    assert run(checkout, "-c", CHOICE, processor=processor).strip() == BY_PROCESSOR[processor]


@pytest.mark.compiler
def test_the_kernels_pass_their_tests_under_an_emulator(checkout: Path) -> None:
    encoder = f"{BACKEND}/test_encoder.py::test_every_kind_equals_its_twin"
    pytest_command = ["-m", "pytest", "-q", "--color=no", "--noconftest", "-m", ""]
    layers = [f"{encoder}[bert-{kind}]" for kind in KINDS]
    products = f"{PRODUCTS} or every_kind"
    found = run(checkout, *pytest_command, f"{BACKEND}/test_linear.py", *layers, "-k", products)
    [passed] = re.findall(r"^(\d+) passed", found, re.MULTILINE)
    assert int(passed) >= 3 + 6 + len(KINDS), found
