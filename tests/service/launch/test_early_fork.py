"""Tests of processes that are forked before the server starts threads."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

CHILD = """
import os, sys
import orjson

def main():
    print(orjson.dumps({
        "line": sys.stdin.readline().strip(),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "leads": os.getsid(0) == os.getpid(),
        "shares": "embedwell_models.model_description" in sys.modules,
        "path": sys.path,
    }).decode(), flush=True)
    sys.stdin.readline()
    END

if __name__ == "__main__":
    main()
"""
PARENT = """
import asyncio, os, sys, threading
from embedwell.launch.early_fork import fork_early

async def run(spawn):
    answers, output = os.pipe()
    process = await spawn(output)
    os.close(output)
    process.stdin.write(b"hello\\n")
    print(os.read(answers, 1 << 16).decode().strip(), flush=True)
    process.stdin.close()
    print(await process.wait(), flush=True)

kept, other = os.pipe()
BEFORE
spawn = fork_early("child", [kept])
AFTER
for _ in range(2):
    asyncio.run(run(spawn))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the module `child`."""
    (tmp_path / "child.py").write_text(CHILD.replace("END", "sys.exit(5)"))
    return tmp_path


def start(folder: Path, before: str = "", after: str = "") -> subprocess.Popen[str]:
    """Start a program that forks `child`."""
    program = PARENT.replace("BEFORE", before).replace("AFTER", after)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )


def finish(folder: Path, **parts: str) -> tuple[list[dict[str, Any]], list[int], str]:
    """Run it: what two processes said, their exit statuses, and the errors."""
    with start(folder, **parts) as process:
        output, errors = process.communicate(timeout=120)
    lines = [orjson.loads(line) for line in output.splitlines()]
    return lines[::2], lines[1::2], errors


def test_the_first_process_is_forked_and_its_successor_is_a_program(folder: Path) -> None:
    (forked, program), statuses, errors = finish(folder)
    assert (forked["line"], program["line"]) == ("hello", "hello")
    assert forked["leads"] and program["leads"], "of process groups, so that they can be killed"
    assert forked["shares"] and not program["shares"]
    assert statuses == [5, 5] and not errors


def test_a_forked_process_keeps_the_descriptors_of_a_program(folder: Path) -> None:
    (forked, program), *_ = finish(folder)
    assert forked["descriptors"] == program["descriptors"]
    assert len(forked["descriptors"]) == 5, "standard streams, the one that it keeps, the list"


def test_a_process_with_threads_forks_none(folder: Path) -> None:
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (first, second), *_ = finish(folder, before=thread)
    assert not first["shares"] and not second["shares"]


def test_a_process_without_a_standard_stream_forks_none(folder: Path) -> None:
    (first, _), *_ = finish(folder, before="os.close(2)")
    assert not first["shares"]


def test_files_of_the_working_directory_shadow_no_modules(folder: Path) -> None:
    here = "import pathlib; sys.path.insert(0, str(pathlib.Path.cwd()))"  # as `python -m` does
    (forked, _), *_ = finish(folder, before=here)
    assert str(Path.cwd()) not in forked["path"][:1]


def test_an_error_is_a_status_and_a_traceback(folder: Path) -> None:
    (folder / "child.py").write_text(CHILD.replace("END", "raise ValueError('odd')"))
    _, statuses, errors = finish(folder)
    assert statuses == [1, 1] and errors.count("ValueError: odd") == 2


def test_a_process_that_is_not_wanted_ends_with_its_parent(folder: Path) -> None:
    with start(folder, after="print('[]', flush=True); sys.stdin.read()") as process:
        assert process.stdout and process.stdout.readline()
        [waiting] = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
        _, alive = psutil.wait_procs([waiting], 60)
        assert not alive


def test_a_process_that_has_died_is_an_error_and_has_a_successor(folder: Path) -> None:
    killed = """
import psutil
[waiting] = psutil.Process().children()
waiting.kill()
waiting.wait()
try:
    asyncio.run(run(spawn))
except OSError:
    pass
"""
    lines, statuses, errors = finish(folder, after=killed)
    assert [line["shares"] for line in lines] == [False, False]
    assert statuses == [5, 5] and not errors
