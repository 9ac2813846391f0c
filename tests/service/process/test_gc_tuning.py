"""Tuning of the heap, in a process of its own, as it changes the garbage collector for good."""

import subprocess
import sys

SCRIPT = """
import psutil
from embedwell.process.gc_tuning import settle_heap

blocks = [bytes(2000) for _ in range(100_000)]
last = blocks.pop()  # a block at the end of the heap prevents its trimming
blocks.clear()
before = psutil.Process().memory_info().rss
settle_heap()
print(before - psutil.Process().memory_info().rss)
"""


def test_memory_used_for_loading_is_returned_to_the_system() -> None:
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    assert int(process.stdout) > 150e6
