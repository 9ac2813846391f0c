"""The watch over another process, with programs of the tests' own."""

import asyncio
import logging
import signal
import stat
import time
from pathlib import Path

import pytest
import uvloop

from service.supervisor import REFUSED, Child, Supervisor


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def test_a_process_that_cannot_be_spawned_is_tried_again_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, refused = tmp_path / "python", asyncio.Event()
    restarts: list[None] = []

    async def run() -> None:
        child = Child("the thing", "module", b"", program=str(path))
        supervisor = Supervisor(child, refused.set, lambda: restarts.append(None))
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(20):
            while len(restarts) < 2:
                assert not running.done(), "the watch has ended"
                await asyncio.sleep(0.01)
            program(path, f"exit {REFUSED}")
            await refused.wait()
            await running

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "the thing cannot be started: [Errno 2]" in caplog.text
    assert f"the thing ended with status {REFUSED} and is not started again" in caplog.text


@pytest.mark.parametrize("status", [0, 1, 2, 3, 128 + signal.SIGTERM])
def test_a_process_that_ends_as_any_program_may_is_started_again(
    tmp_path: Path, status: int
) -> None:
    async def run() -> None:
        path, restarted = program(tmp_path / "python", f"exit {status}"), asyncio.Event()
        child = Child("a", "module", b"", program=path)
        running = asyncio.create_task(Supervisor(child, on_restart=restarted.set).run())
        async with asyncio.timeout(20):
            await restarted.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_processes_that_end_at_once_are_started_again_whatever_became_of_their_letters() -> None:
    async def life(child: Child) -> None:
        restarted = asyncio.Event()
        running = asyncio.create_task(Supervisor(child, on_restart=restarted.set).run())
        waiting = asyncio.create_task(restarted.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert restarted.is_set() and not running.done(), "the watch has ended"
        running.cancel()
        await asyncio.wait([running])

    async def run() -> None:
        for _ in range(20):
            child = Child("a", "module", b"letter " * 100, program="/bin/false")
            await asyncio.gather(*(life(child) for _ in range(10)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_a_file_of_the_folder_where_it_is_started_is_no_module_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "this.py").write_text(f"raise SystemExit({REFUSED})")
    refused: list[None] = []

    async def run() -> None:
        restarted = asyncio.Event()
        child = Child("a", "this", b"")  # Python's own ends with 0
        supervisor = Supervisor(child, lambda: refused.append(None), restarted.set)
        running = asyncio.create_task(supervisor.run())
        waiting = asyncio.create_task(restarted.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=20)
        for task in (running, waiting):
            task.cancel()
        await asyncio.wait([running, waiting])

    asyncio.run(run())
    assert not refused


def test_a_process_reads_its_letter_and_leaves_at_the_end_of_its_input(tmp_path: Path) -> None:
    found = tmp_path / "found"
    script = f'read letter; echo "$letter $@" > {found}; cat > /dev/null; echo left >> {found}'

    async def run() -> None:
        path = program(tmp_path / "python", script)
        supervisor = Supervisor(Child("a", "module", b"dear process", program=path))
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(20):
            while not found.exists() or not found.read_text():
                await asyncio.sleep(0.01)
            supervisor.leave()
            await running

    asyncio.run(run())
    assert found.read_text() == "dear process -P -m module\nleft\n"


def test_no_other_process_is_started_when_it_is_told_to_leave_after_one_has_ended(
    tmp_path: Path,
) -> None:
    begun = tmp_path / "begun"

    async def run() -> None:
        path = program(tmp_path / "python", f"echo >> {begun}; exit 1")
        restarts = asyncio.Event()
        supervisor = Supervisor(Child("a", "module", b"", program=path), on_restart=restarts.set)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(20):
            await restarts.wait()
            supervisor.leave()
            await running

    asyncio.run(run())
    assert begun.read_text() == "\n"


def test_a_process_that_does_not_leave_is_killed(tmp_path: Path) -> None:
    async def run() -> float:
        path = program(tmp_path / "python", f"read letter; echo > {tmp_path}/up; exec sleep 60")
        supervisor = Supervisor(Child("a", "module", b"", patience=0.1, program=path))
        running = asyncio.create_task(supervisor.run())
        while not (tmp_path / "up").exists():
            await asyncio.sleep(0.01)
        start = time.monotonic()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - start

    assert 0.1 <= asyncio.run(run()) < 20
