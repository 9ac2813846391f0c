"""The heap, in a process of its own: what it does to the garbage collector stays."""

import subprocess
import sys

SCRIPT = """
import psutil
from service.process.gc_tuning import freeze

blocks = [bytes(2000) for _ in range(100_000)]
last = blocks.pop()  # what stands at the heap's end keeps all before it
blocks.clear()
before = psutil.Process().memory_info().rss
freeze()
print(before - psutil.Process().memory_info().rss)
"""


def test_what_was_used_to_load_goes_back_to_the_system() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    assert int(found.stdout) > 150e6
