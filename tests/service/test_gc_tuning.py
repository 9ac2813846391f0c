"""Tuning of the heap, in a process of its own, as it changes the garbage collector for good."""

import subprocess
import sys

SCRIPT = """
import psutil
from embedwell.gc_tuning import settle_heap

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


DELAYED = """
import asyncio, psutil
from embedwell.gc_tuning import FreeMemory

async def run():
    blocks = [bytes(2000) for _ in range(100_000)]
    last = blocks.pop()  # a block at the end of the heap prevents its trimming
    blocks.clear()
    memory, process = FreeMemory(), psutil.Process()
    before = process.memory_info().rss
    for _ in range(1000):
        memory.return_soon()
    assert before - process.memory_info().rss < 1e6, "it is returned at once, for each request"
    while before - process.memory_info().rss < 150e6:
        await asyncio.sleep(0.01)

asyncio.run(asyncio.wait_for(run(), 60))
"""


def test_memory_of_many_requests_is_returned_together() -> None:
    subprocess.run([sys.executable, "-c", DELAYED], check=True)
