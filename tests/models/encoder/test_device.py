"""Tests of devices, in a process with torch and in one without."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from embedwell_models.encoder.device import (
    Device,
    may_be_gpu,
    torch_is_installed,
)

SCRIPT = """
import sys
import psutil
from embedwell_models import Embedder
from embedwell_models.encoder.device import return_free_memory

load = lambda: Embedder.load(dtype="float32", device="cpu")
steps = {"function": return_free_memory, "load": load}
blocks = [bytes(2000) for _ in range(200_000)]
last = blocks.pop()  # a block at the end of the heap prevents its trimming
blocks.clear()
before = psutil.Process().memory_info().rss
kept = steps[sys.argv[1]]()
print(before - psutil.Process().memory_info().rss)
"""


def test_a_device_has_the_names_of_torch() -> None:
    for name in ("cpu", "cuda", "cuda:1"):
        theirs = torch.device(name)
        ours = Device(theirs.type, theirs.index)
        assert str(ours) == str(theirs) == name and ours.type == theirs.type


@pytest.mark.parametrize("file", ["nvidiactl", "nvhost-gpu", "nvmap", "dxg", "kfd"])
def test_auto_may_be_a_gpu_where_there_is_a_file_of_one(tmp_path: Path, file: str) -> None:
    (tmp_path / "null").touch()
    assert may_be_gpu("auto", tmp_path) == (sys.platform != "linux")
    (tmp_path / file).touch()
    assert may_be_gpu("auto", tmp_path)


def test_auto_is_no_gpu_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidiactl").touch()
    assert torch_is_installed()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not torch_is_installed() and not may_be_gpu("auto", tmp_path)
    assert may_be_gpu("cuda:0", tmp_path) and not may_be_gpu("cpu", tmp_path)


def test_a_process_without_torch_does_not_import_it() -> None:
    program = (
        "import sys\n"
        "from embedwell_models.encoder.device import *\n"
        "from embedwell_models.encoder.device_errors import *\n"
        "assert is_out_of_memory(MemoryError()) and not is_out_of_memory(RuntimeError())\n"
        "assert not is_device_lost(MemoryError()) and str(Device('cpu')) == 'cpu'\n"
        "release_gpu_cache(); may_be_gpu('auto'); torch_is_installed()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("step", ["function", "load"])
def test_free_memory_is_returned_to_the_system(step: str) -> None:
    command = [sys.executable, "-c", SCRIPT, step]
    process = subprocess.run(command, capture_output=True, check=True)
    assert int(process.stdout) > 150e6
