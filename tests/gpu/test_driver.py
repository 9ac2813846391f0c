"""What torch's build for CUDA says of drivers that do not work, and what the log makes of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.stub_driver import compile_driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.version.cuda is None, reason="torch is not a build for CUDA"),
]

PROGRAM = """
import logging, sys
from pathlib import Path
from embedwell_models.errors import ModelError
from embedwell_models.torch_backend.device import resolve_device
logging.basicConfig(format="auto: %(message)s", stream=sys.stdout)
assert str(resolve_device("auto", device_files=Path(sys.argv[1]))) == "cpu"
try:
    resolve_device("cuda")
except ModelError as error:
    print("cuda:", error)
"""


@pytest.mark.parametrize(
    ("driver", "says"),
    [
        ({"version": 11080}, "supports CUDA 11.8, too old for torch"),
        ({"init": 100}, "sees no GPU; install NVIDIA's driver"),
        ({"init": 802}, "start the service nvidia-fabricmanager"),
        ({"init": 803}, "NVIDIA's driver and its libraries have different versions"),
        ({"init": 804}, "leave them out of LD_LIBRARY_PATH"),
        ({"init": 999}, "load its module nvidia_uvm again"),
        ({"error": 2}, "its memory is full"),
        ({"error": 46}, "it is busy or not ready"),
    ],
    ids=str,
)
def test_one_line_says_what_helps_with_a_driver(
    driver: dict[str, int], says: str, tmp_path: Path
) -> None:
    folder = compile_driver(tmp_path, **driver)
    (tmp_path / "nvidia0").touch()
    variables = {name: each for name, each in os.environ.items() if not name.startswith("CUDA_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**variables, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    auto, cuda = done.stdout.splitlines()
    assert auto.startswith("auto: the CPU computes, not the GPU: ") and says in auto
    assert cuda.startswith("cuda: device 'cuda' is not available: ") and says in cuda
