"""Tests of what the Makefile asks pip for."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"
GPU = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]


def commands(folder: Path, *options: str) -> str:
    """The commands of a fresh checkout up to the installation of PyTorch, which are not run."""
    shutil.copy(MAKEFILE, folder)
    command = ["make", "--no-print-directory", "--dry-run", *options, ".venv/torch"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(bool(GPU), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_gets_the_build_of_pytorch_for_processors(tmp_path: Path) -> None:
    made = commands(tmp_path)
    assert "--extra-index-url https://download.pytorch.org/whl/cpu torch" in made
    assert "No NVIDIA device here" in made


def test_an_index_that_the_user_names_is_taken(tmp_path: Path) -> None:
    made = commands(tmp_path, "TORCH_INDEX=https://example.org/whl")
    assert "--extra-index-url https://example.org/whl torch" in made


def test_an_empty_index_leaves_the_choice_to_pip(tmp_path: Path) -> None:
    assert "pip" not in commands(tmp_path, "TORCH_INDEX=")
