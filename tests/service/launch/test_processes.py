"""Tests of how processes are started: forked from an event loop, or as programs."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from embedwell.launch.processes import program

CHILD = """
import asyncio, os, signal, sys
import orjson

def main():
    line = sys.stdin.readline().strip()
    print(orjson.dumps({
        "line": line,
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "leads": os.getsid(0) == os.getpid(),
        "shares": "embedwell_models.description.model_description" in sys.modules,
        "preloaded": "slow_to_import" in sys.modules,
        "path": sys.path,
        "handlers": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)],
        "answer": asyncio.run(asyncio.sleep(0, "own loop")),
    }).decode(), flush=True)
    sys.stdin.readline()
    END

if __name__ == "__main__":
    main()
"""
PARENT = """
import asyncio, atexit, os, signal, sys, threading
from embedwell.launch.processes import forked, preload

async def run():
    process, answers = await start()
    process.stdin.write(b"hello\\n")
    print(os.read(answers, 1 << 16).decode().strip(), flush=True)
    process.stdin.close()
    print(await process.wait(), flush=True)
    os.close(answers)

async def start():
    answers, output = os.pipe()
    process = await spawn(output)
    os.close(output)
    return process, answers

signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
kept, other = os.pipe()
BEFORE
spawn = forked("child", [kept])
AFTER
"""
TWICE = """
for _ in range(2):
    asyncio.run(run())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for the module `child`."""
    (tmp_path / "child.py").write_text(CHILD.replace("END", "sys.exit(5)"))
    return tmp_path


def start(
    folder: Path, before: str = "", after: str = TWICE, shell: str = 'exec "$@"'
) -> subprocess.Popen[str]:
    """Start a program that forks `child`, by a command of the shell."""
    program = PARENT.replace("BEFORE", before).replace("AFTER", after)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = {"OPENBLAS_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path}
    return subprocess.Popen(
        ["sh", "-c", shell, "sh", sys.executable, "-W", "error", "-c", program],
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


def test_a_process_and_its_successor_are_forked(folder: Path) -> None:
    processes, statuses, errors = finish(folder)
    assert [each["line"] for each in processes] == ["hello", "hello"]
    assert all(each["shares"] for each in processes)
    assert all(each["leads"] for each in processes), "process groups, so that they can be killed"
    assert statuses == [5, 5] and not errors


def test_modules_are_imported_once_for_all_forked_processes(folder: Path) -> None:
    (folder / "slow_to_import.py").touch()
    preload = "preload('slow_to_import')"
    processes, *_ = finish(folder, before=preload)
    assert [each["preloaded"] for each in processes] == [True, True]
    count = "print(len(sys.modules))"
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    with start(folder, before=f"{thread}\n{count}\n{preload}\n{count}", after="") as process:
        before, after = process.communicate(timeout=120)[0].splitlines()
    assert before == after, "a process with threads forks none"


def test_nothing_of_the_parent_goes_on_in_a_forked_process(folder: Path) -> None:
    at_exit = "atexit.register(lambda: sys.stderr.write(f'exit of {os.getpid()}'))"
    (forked, _), _, errors = finish(folder, before=at_exit)
    assert forked["handlers"] == [signal.SIG_DFL, signal.SIG_IGN]
    assert forked["answer"] == "own loop" and errors.count("exit of") == 1


def test_a_forked_process_keeps_the_descriptors_of_a_program(folder: Path) -> None:
    thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
    (forked, _), *_ = finish(folder)
    (program, _), *_ = finish(folder, before=thread)
    assert forked["descriptors"] == program["descriptors"]
    assert len(forked["descriptors"]) == 5, "standard streams, the one that it keeps, the list"
    assert not program["shares"], "a process with threads forks none"


def test_a_process_without_a_standard_stream_forks_none(folder: Path) -> None:
    (first, _), *_ = finish(folder, shell='exec "$@" 2>&-')
    assert not first["shares"]


def test_a_process_leaves_no_descriptors_in_its_parent(folder: Path) -> None:
    count = "print(len(os.listdir('/proc/self/fd')))"
    counted = f"{TWICE.rstrip()}; {count}"  # the first may open some of a library's
    with start(folder, after=counted) as process:
        lines = process.communicate(timeout=120)[0].splitlines()
    assert len(lines) == 6 and lines[2] == lines[5]


def test_a_failed_start_leaves_no_descriptors(folder: Path) -> None:
    refused = """
import resource
from embedwell.launch import processes

async def refuse():
    output = os.open(os.devnull, os.O_WRONLY)
    await (await spawn(output)).wait()  # imports the modules
    used = len(os.listdir("/proc/self/fd")) - 1
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(1, 4):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, most))
        try:
            processes.ForkedProcess("child", [kept], output)
        except OSError as error:
            print(error.errno)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        assert len(os.listdir("/proc/self/fd")) == used + 1, spare

asyncio.run(refuse())
"""
    (folder / "child.py").write_text("def main(): pass")
    with start(folder, after=refused) as process:
        output, errors = process.communicate(timeout=120)
    assert output == f"{errno.EMFILE}\n" * 3 and not errors


def test_files_of_the_working_directory_shadow_no_modules(folder: Path) -> None:
    here = "import pathlib; sys.path.insert(0, str(pathlib.Path.cwd()))"  # as `python -m` does
    (forked, _), *_ = finish(folder, before=here)
    assert str(Path.cwd()) not in forked["path"][:1]


def test_an_error_is_a_status_and_a_traceback(folder: Path) -> None:
    (folder / "child.py").write_text(CHILD.replace("END", "raise ValueError('odd')"))
    _, statuses, errors = finish(folder)
    assert statuses == [1, 1] and errors.count("ValueError: odd") == 2


def test_a_module_that_cannot_be_imported_is_an_error_of_the_start(folder: Path) -> None:
    (folder / "child.py").write_text("raise ImportError('no library')")
    refused = """
import gc
for _ in range(2):
    try:
        asyncio.run(run())
    except OSError as error:
        print(error, gc.isenabled())
"""
    with start(folder, after=refused) as process:
        output, errors = process.communicate(timeout=120)
    assert output == "child cannot be imported: no library True\n" * 2 and not errors


def test_forked_processes_notice_the_end_of_their_parent(folder: Path) -> None:
    waiting = """
async def wait():
    processes = [await start() for _ in range(2)]
    print("[]", flush=True)
    await asyncio.Event().wait()

asyncio.run(wait())
"""
    with start(folder, after=waiting) as process:
        assert process.stdout and process.stdout.readline()
        children = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
        _, alive = psutil.wait_procs(children, 60)
    assert len(children) == 2 and not alive


def test_a_program_imports_no_module_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "this.py").write_text("raise SystemExit(7)")

    async def run() -> int:
        with open(os.devnull, "wb") as output:
            return await (await program("this")(output.fileno())).wait()

    assert asyncio.run(run()) == 0, "the standard module `this`"
