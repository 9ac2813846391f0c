"""Commands that compute vectors, in a process that cannot import torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from embedwell_models.cpu_backend import library
from embedwell_models.errors import TORCH_MISSING
from tests.conftest import Folder
from tests.service.local_server import local_server

pytestmark = pytest.mark.full

_PROGRAM = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
from embedwell.cli.commands import main
main(sys.argv[1:])
"""
PLOTS = (
    ("plot", "map", "in.txt", "-o", "map.svg"),
    ("plot", "similarity", "in.txt", "-o", "similarity.svg"),
    ("plot", "positions", "--scheme", "learned", "--count", "4", "-o", "positions.svg"),
)
SCORES = ("evaluate", "tasks", "--sts", "pairs.csv")
EMBED = ("embed", "in.txt", "-o", "out.npy")
KERNELS = {"hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
"""Sizes of a BERT that the compiled kernels compute; by default they do not."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("one\ntwo\nthe cat\nworks\n")
    (tmp_path / "pairs.csv").write_text("one,two,1\nthe,works,2\ntwo,works,3\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
@pytest.mark.parametrize("arguments", [*PLOTS, SCORES, EMBED, ("info",)], ids=" ".join)
def test_a_model_of_the_compiled_kernels_needs_no_torch(
    folder: Path, tiny_bert: Folder, arguments: tuple[str, ...]
) -> None:
    done = run(folder, *arguments, "--model", str(tiny_bert(**KERNELS)))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
@pytest.mark.parametrize(
    ("needs", "options"),
    [
        ("the layers of this bert model", ()),
        ("a processor or an installation without compiled kernels", ("--isa", "none")),
        ("the device cuda:0", ("--device", "cuda:0")),
    ],
)
@pytest.mark.parametrize("arguments", [EMBED, ("info",)], ids=" ".join)
def test_the_message_says_what_needs_torch_and_how_to_install_it(
    folder: Path,
    tiny_bert: Folder,
    arguments: tuple[str, ...],
    needs: str,
    options: tuple[str, ...],
) -> None:
    model = tiny_bert()
    done = run(folder, *arguments, *options, "--model", str(model))
    message = f"Error: {model}: needs PyTorch for {needs}, and {TORCH_MISSING}\n"
    assert (done.returncode, done.stderr.endswith(message)) == (1, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "parity"),
        ("evaluate", "mteb", "STSBenchmark"),
    ],
    ids=" ".join,
)
def test_commands_whose_other_packages_need_torch_say_so(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    done = run(folder, *arguments)
    assert (done.returncode, done.stderr) == (1, f"Error: {TORCH_MISSING}\n")


def test_the_vectors_of_a_server_need_no_torch(folder: Path, tiny_bert: Folder) -> None:
    with local_server(tiny_bert()) as server:
        for arguments in (*PLOTS, SCORES):
            done = run(folder, *arguments, "--server", server.url)
            assert done.returncode == 0, done.stderr
    assert len([*folder.glob("*.svg")]) == len(PLOTS)
