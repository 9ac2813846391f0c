"""The installation of PyTorch by the Makefile."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"
GPU = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]


def commands(folder: Path, *options: str) -> str:
    """The commands that `make` would run up to the installation of PyTorch."""
    shutil.copy(MAKEFILE, folder)
    command = ["make", "--no-print-directory", "--dry-run", *options, ".venv/torch"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return process.stdout


@pytest.mark.skipif(bool(GPU), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_gets_the_cpu_build_of_pytorch(tmp_path: Path) -> None:
    output = commands(tmp_path)
    assert "--extra-index-url https://download.pytorch.org/whl/cpu torch" in output
    assert "No NVIDIA device here" in output


def test_the_users_index_is_used(tmp_path: Path) -> None:
    output = commands(tmp_path, "TORCH_INDEX=https://example.org/whl")
    assert "--extra-index-url https://example.org/whl torch" in output


def test_an_empty_index_uses_that_of_pip(tmp_path: Path) -> None:
    assert "pip" not in commands(tmp_path, "TORCH_INDEX=")
