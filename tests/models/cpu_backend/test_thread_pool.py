"""Tests of the threads of the kernels: teams of changing sizes, side by side, after forks."""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from ctypes import c_uint, c_void_p
from pathlib import Path

import pytest

from embedwell_models.cpu_backend.library import FOLDER, last_team, team_functions

pytestmark = pytest.mark.skipif(
    not (FOLDER / "libthreads.so").exists(), reason="there are no kernels without a compiler"
)

_TIMEOUT = 300  # seconds; a team that waits for a thread never ends
Function = ctypes.CFUNCTYPE(None, c_void_p)
RunTeam = ctypes.CFUNCTYPE(None, Function, c_void_p, c_uint)
TeamSize = ctypes.CFUNCTYPE(ctypes.c_int)


def team(count: int, member: Callable[[int], object]) -> None:
    """Call a function on a team with the size that each of its threads sees."""
    run, size = team_functions()
    team_size = TeamSize(size.value or 0)
    RunTeam(run.value or 0)(Function(lambda _: member(team_size()) and None), None, count)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 3])
def test_each_thread_of_a_team_sees_its_size(count: int) -> None:
    sizes: list[int] = []
    team(count, sizes.append)
    assert sizes == [max(count, 1)] * max(count, 1)


def test_a_thread_of_a_team_is_a_team_of_its_own_in_a_nested_call() -> None:
    sizes: list[tuple[int, int]] = []
    team(2, lambda outer: team(3, lambda inner: sizes.append((outer, inner))))
    assert sizes == [(2, 1)] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_team_has_the_processor_time_of_all_its_threads(count: int) -> None:
    times: list[float] = []

    def compute(_: int) -> None:
        started = time.thread_time()
        while time.thread_time() < started + 0.02:
            continue
        times.append(time.thread_time() - started)

    team(count, compute)
    size, elapsed, computed = last_team()
    assert size == len(times) == count and elapsed > 0.02
    assert computed >= sum(times)


# A semaphore counts the calls, without Python's lock, which would keep the threads apart.
_COUNT = """
import ctypes, os, random, resource, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
from embedwell_models.cpu_backend.library import team_functions

process = ctypes.CDLL(None)
run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)(
    team_functions()[0].value)
post = ctypes.cast(process.sem_post, ctypes.c_void_p)

def calls(count):
    semaphore, number = ctypes.create_string_buffer(64), ctypes.c_int()
    process.sem_init(semaphore, 0, 0)
    run(post, semaphore, count)
    process.sem_getvalue(semaphore, ctypes.byref(number))
    return number.value

def teams(seed, rounds=1500):
    sizes = random.Random(seed)
    for _ in range(rounds):
        count = sizes.choice([1, 2, 2, 3, 4, 7])
        assert calls(count) == count

def fork(rounds=50):
    child = os.fork()
    if not child:
        signal.alarm(120)
        try:
            teams(child, rounds)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def threads():
    return len(os.listdir("/proc/self/task"))
"""

_CHANGING = """
teams(0)
with ThreadPoolExecutor(4) as others:
    running = [others.submit(teams, seed) for seed in range(4)]
    for _ in range(20):
        fork()
    for thread in running:
        thread.result()
print("done")
"""

_LAZY = """
before = threads()
assert calls(1) == 1 and threads() == before
assert calls(3) == 3 and threads() == before + 2
assert calls(2) == 2 and threads() == before + 2
print("done")
"""

_LIMITED = """
assert calls(2) == 2
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
most = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (now + (4 << 20), most))  # less than stacks take
assert calls(7) < 7
resource.setrlimit(resource.RLIMIT_AS, (most, most))
assert calls(7) == 7
print("done")
"""


_IDS = ["changing", "lazy", "limited"]


@pytest.mark.parametrize("program", [_CHANGING, _LAZY, _LIMITED], ids=_IDS)
def test_a_team_has_the_threads_that_it_asks_for_and_the_system_gives(program: str) -> None:
    models = str(Path(__file__).parents[3] / "models")
    found = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _COUNT + program],
        env={**os.environ, "PYTHONPATH": models},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    assert found.stdout == "done\n", found.stderr
