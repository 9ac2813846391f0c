"""The installation by the Makefile, with a Python that only notes what it is asked for."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parent.parent / "Makefile"
GPU = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]
PYTHON = """#!/bin/sh
case "$*" in
  *best_isa*) exit {status} ;;
  *compileall*) echo "$*" >> asked ;;
  *) echo "$*" >> asked; echo "$KERNELS" >> kernels ;;
esac
"""
WITHOUT_GPU = "GPU="


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an environment whose kernels can be used."""
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "hatch_build.py"):
        (tmp_path / name).touch()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "python").touch()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"command = -m venv {tmp_path}/.venv\n")
    write_python(tmp_path, kernels=True)
    return tmp_path


def write_python(folder: Path, kernels: bool) -> None:
    python = folder / ".venv" / "bin" / "python"
    python.write_text(PYTHON.format(status=0 if kernels else 1))
    python.chmod(0o755)


def installed(folder: Path, *options: str) -> tuple[list[str], str]:
    """What pip is asked for, each with its options, and what make prints."""
    (folder / "asked").unlink(missing_ok=True)
    command = ["make", "--no-print-directory", *options]
    # Not the options of a make that runs the tests, such as -j.
    alone = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    process = subprocess.run(
        command, cwd=folder, env=alone, capture_output=True, text=True, check=True
    )
    asked = (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []
    of_pip = [line.partition("constraints.txt ")[2] for line in asked if "-m pip" in line]
    return of_pip, process.stdout


@pytest.mark.skipif(bool(GPU), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_gets_the_cpu_build_of_pytorch(checkout: Path) -> None:
    asked, output = installed(checkout, ".venv/torch")
    index = "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert asked == [f"--no-deps --retries 1 {index} torch", "torch"]
    assert "No NVIDIA device here" in output


def test_next_to_an_amd_gpu_pytorch_needs_the_index_of_rocm(checkout: Path) -> None:
    amd, index = ("GPU=", "AMD_GPU=/dev/kfd"), "https://download.pytorch.org/whl/rocm7.2"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        installed(checkout, *amd, "torch")
    assert "make torch TORCH_INDEX=https://download.pytorch.org/whl/rocmX.Y" in failed.value.stderr
    assert not (checkout / "asked").exists()
    asked, _ = installed(checkout, *amd, f"TORCH_INDEX={index}", "torch")
    extra = f"--extra-index-url {index} torch"
    assert [line for line in asked if "torch" in line] == [f"--no-deps --retries 1 {extra}", extra]


def test_the_users_index_is_used(checkout: Path) -> None:
    asked, _ = installed(checkout, "TORCH_INDEX=https://example.org/whl", ".venv/torch")
    assert "--extra-index-url https://example.org/whl torch" in asked[0]


def test_an_empty_index_uses_that_of_pip(checkout: Path) -> None:
    assert installed(checkout, "TORCH_INDEX=", ".venv/torch")[0] == ["torch"]
    (checkout / ".venv" / "torch").unlink()
    amd = ("GPU=", "AMD_GPU=/dev/kfd")
    assert installed(checkout, *amd, "TORCH_INDEX=", "torch")[0][-1] == "torch"


def test_a_server_on_kernels_needs_no_pytorch(checkout: Path) -> None:
    asked, output = installed(checkout, WITHOUT_GPU, ".venv/runtime")
    assert asked == ["-e ."]
    assert "PyTorch" not in output


def test_only_all_tests_compile_the_kernels_of_other_processors(checkout: Path) -> None:
    kernels = checkout / "kernels"
    installed(checkout, WITHOUT_GPU, ".venv/runtime")
    assert kernels.read_text() == "best\n"
    kernels.unlink()
    installed(checkout, "TORCH_INDEX=", ".venv/test")
    assert sorted(kernels.read_text().splitlines()) == ["", "best", "compiled"]
    kernels.unlink()
    installed(checkout, "TORCH_INDEX=", ".venv/dev")
    assert {*kernels.read_text().splitlines()} == {"", "compiled"}


def test_pip_compiles_no_modules_for_tests(checkout: Path) -> None:
    installed(checkout, WITHOUT_GPU, ".venv/runtime")
    assert "--no-compile" not in (checkout / "asked").read_text()
    for environment in (".venv/test", ".venv/dev"):
        installed(checkout, "TORCH_INDEX=", environment)
        asked = (checkout / "asked").read_text()
        of_pip = [line for line in asked.splitlines() if " install " in line]
        assert of_pip and all("--no-compile" in line for line in of_pip)
    assert "compileall -q -j 0 -x" in asked, "on all processors"


def test_the_silence_of_pip_is_told_of_beforehand(checkout: Path) -> None:
    _, output = installed(checkout, WITHOUT_GPU, ".venv/runtime")
    assert "kernels of this processor compile for half a minute, in which pip prints" in output


def test_a_server_without_kernels_gets_pytorch_and_says_so(checkout: Path) -> None:
    write_python(checkout, kernels=False)
    asked, output = installed(checkout, WITHOUT_GPU, "TORCH_INDEX=", ".venv/runtime")
    assert asked == ["-e .", "torch"]
    assert "No compiled kernels for this machine: PyTorch is installed" in output


def test_a_server_on_a_gpu_gets_pytorch(checkout: Path) -> None:
    asked, _ = installed(checkout, "GPU=/dev/nvidia0", ".venv/runtime")
    assert asked == ["torch", "-e ."]


def test_pytorch_can_be_added(checkout: Path) -> None:
    installed(checkout, WITHOUT_GPU, ".venv/runtime")
    assert installed(checkout, "TORCH_INDEX=", "torch")[0] == ["torch"]
    assert installed(checkout, "TORCH_INDEX=", "torch")[0] == []


def test_tests_install_pytorch_next_to_the_kernels_and_the_server_nothing_after_them(
    checkout: Path,
) -> None:
    asked, _ = installed(checkout, "TORCH_INDEX=", ".venv/test")
    assert [line for line in asked if line] == ["torch", "-e .[torch,test]"]
    assert "wheel --quiet --no-deps -w .venv/wheel ." in (checkout / "asked").read_text()
    assert installed(checkout, ".venv/runtime")[0] == []


def test_all_kernels_compile_while_all_packages_are_installed(checkout: Path) -> None:
    installed(checkout, "TORCH_INDEX=", ".venv/test")
    asked, _ = installed(checkout, "TORCH_INDEX=", ".venv/dev")
    assert "-e .[torch,test,dev,clients]" in asked
    assert "wheel --quiet --no-deps -w .venv/wheel ." in (checkout / "asked").read_text()
    for environment in (".venv/dev", ".venv/test", ".venv/runtime"):
        assert installed(checkout, environment)[0] == []


@pytest.fixture
def commands_of_check(checkout: Path) -> str:
    """The commands of `make check`, none of which is run."""
    javascript = checkout / "tests" / "clients" / "js"
    javascript.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        (javascript / name).touch()
    (checkout / "deploy").mkdir()
    (checkout / "deploy" / "requirements.py").touch()
    return installed(checkout, "--dry-run", "check")[1]


def test_everything_is_checked_three_stages_at_a_time(commands_of_check: str) -> None:
    output = commands_of_check
    assert "--keep-going --old-file pull -j 3" in output
    marks = re.findall(r"pytest .*-m (\w+)", output)
    assert {*marks} == {"compiler", "attack", "interpreter", "image", "without_torch"}
    for command in ("ruff check", "mypy", "mkdocs build", "EMBEDWELL_ISA=", "ATEN_CPU_CAPABILITY="):
        assert command in output, command
    of_all = re.findall(r"pytest .*--full (tests.*)", output)
    folders = {line.partition(" ")[0] for line in of_all if "-k" not in line}
    contract = "tests/service/test_contract.py"  # by itself
    assert folders == {"tests/models", "tests/service", contract, "tests/service/bulk", "tests"}


def test_the_tests_that_are_run_exist(commands_of_check: str) -> None:
    lines = re.findall(r"pytest .*", commands_of_check)
    paths = {path for line in lines for path in re.findall(r"\btests/[\w/.]+", line)}
    assert {"tests/models/cpu_backend/test_library.py", "tests/service/desktop"} <= paths
    assert [path for path in sorted(paths) if not (MAKEFILE.parent / path).exists()] == []
