"""Return of free memory, in a process of its own, whose heap no other test has used."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import psutil
from embedwell_models import Embedder
from embedwell_models.encoder.free_memory import return_free_memory

load = lambda: Embedder.load(dtype="float32", device="cpu")
steps = {"function": return_free_memory, "load": load}
blocks = [bytes(2000) for _ in range(200_000)]
last = blocks.pop()  # a block at the end of the heap prevents its trimming
blocks.clear()
before = psutil.Process().memory_info().rss
kept = steps[sys.argv[1]]()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.parametrize("step", ["function", "load"])
def test_free_memory_is_returned_to_the_system(step: str) -> None:
    command = [sys.executable, "-c", SCRIPT, step]
    process = subprocess.run(command, capture_output=True, check=True)
    assert int(process.stdout) > 150e6
