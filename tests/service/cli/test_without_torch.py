"""Commands that compute vectors, in a process that cannot import torch."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from embedwell_models.cpu_backend import library
from embedwell_models.errors import TORCH_MISSING
from tests.conftest import COMPILED, Folder
from tests.service.commands import Done, run_commands
from tests.service.local_server import local_server

pytestmark = pytest.mark.full

_NO_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""
PLOTS = (
    ("plot", "map", "in.txt", "-o", "map.svg"),
    ("plot", "similarity", "in.txt", "-o", "similarity.svg"),
    ("plot", "positions", "--scheme", "learned", "--count", "4", "-o", "positions.svg"),
)
SCORES = ("evaluate", "tasks", "--sts", "pairs.csv")
EMBED = ("embed", "in.txt", "-o", "out.npy")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("one\ntwo\nthe cat\nworks\n")
    (tmp_path / "pairs.csv").write_text("one,two,1\nthe,works,2\ntwo,works,3\n")
    return tmp_path


def run(folder: Path, *commands: Sequence[str]) -> list[Done]:
    return run_commands(folder, *commands, setup=_NO_TORCH)


@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
def test_a_model_of_the_compiled_kernels_needs_no_torch(folder: Path, tiny_bert: Folder) -> None:
    model = ("--model", str(tiny_bert(**COMPILED)))
    commands = [(*command, *model) for command in (*PLOTS, SCORES, EMBED, ("info",))]
    for command, done in zip(commands, run(folder, *commands), strict=True):
        assert done.returncode == 0, (command, done.stderr)


@pytest.mark.skipif(library.best_isa("float32") is None, reason="there are no kernels")
def test_the_message_says_what_needs_torch_and_how_to_install_it(
    folder: Path, tiny_bert: Folder
) -> None:
    model = str(tiny_bert())
    options = {
        "the layers of this bert model (hidden_size is 48, not a multiple of 64)": (),
        "the device cuda:0": ("--device", "cuda:0"),
        # The last, as it holds for the rest of the process.
        "a processor or an installation without compiled kernels": ("--isa", "none"),
    }
    cases = [(command, needs) for needs in options for command in (EMBED, ("info",))]
    commands = [(*command, *options[needs], "--model", model) for command, needs in cases]
    for (_, needs), done in zip(cases, run(folder, *commands), strict=True):
        message = f"Error: {model}: needs PyTorch for {needs}, and {TORCH_MISSING}\n"
        assert (done.returncode, done.stderr.endswith(message)) == (1, True), done.stderr
        assert "Traceback" not in done.stderr


def test_commands_whose_other_packages_need_torch_say_so(folder: Path) -> None:
    for done in run(folder, ("evaluate", "parity"), ("evaluate", "mteb", "STSBenchmark")):
        assert (done.returncode, done.stderr) == (1, f"Error: {TORCH_MISSING}\n")


def test_the_vectors_of_a_server_need_no_torch(folder: Path, tiny_bert: Folder) -> None:
    with local_server(tiny_bert()) as server:
        commands = [(*command, "--server", server.url) for command in (*PLOTS, SCORES)]
        for command, done in zip(commands, run(folder, *commands), strict=True):
            assert done.returncode == 0, (command, done.stderr)
    assert len([*folder.glob("*.svg")]) == len(PLOTS)
