"""Supervision of a child process, with shell scripts as children."""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from embedwell.launch.processes import Process
from embedwell.launch.processes import program as start_module
from embedwell.launch.supervised import EXIT_PERMANENT_FAILURE
from embedwell.launch.supervisor import (
    ChildSpec,
    HangLimits,
    Report,
    Supervisor,
    Watchdog,
    describe_end,
)

TICK = 0.01
READY = """echo '{"event": "ready"}'"""


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return str(path)


def child(path: str, config: bytes = b"", limits: HangLimits | None = None) -> ChildSpec:
    spawn = start_module("module", executable=path)
    return ChildSpec("the thing", spawn, lambda: config, limits or HangLimits())


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def run_until(supervisor: Supervisor, condition: Callable[[], object]) -> None:
    """Run a supervisor until a condition holds; then stop it."""
    running = asyncio.create_task(supervisor.run())
    await wait_until(condition)
    supervisor.stop()
    await asyncio.wait_for(running, 60)


def test_a_failed_spawn_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, restarts = tmp_path / "python", list[None]()

    async def run() -> None:
        supervisor = Supervisor(child(str(path)), on_restart=lambda: restarts.append(None))
        running = asyncio.create_task(supervisor.run())
        await asyncio.wait_for(supervisor.spawned.wait(), 60)
        await wait_until(lambda: len(restarts) == 2)
        program(path, f"exit {EXIT_PERMANENT_FAILURE}")
        await asyncio.wait_for(running, 60)

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "the thing cannot be started: [Errno 2]" in caplog.text


def test_a_process_that_is_never_ready_is_not_restarted_after_five_starts(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "begun"
    path = program(tmp_path / "python", f"echo >> {starts}; kill -9 $$")
    supervisor = Supervisor(child(path))
    asyncio.run(asyncio.wait_for(supervisor.run(), 60))
    assert starts.read_text() == "\n" * 5
    assert supervisor.failure == (
        "the thing was killed by signal 9, often for lack of memory; see the lines above "
        "(the thing was started 5 times and was never ready)"
    )


def test_the_reported_reason_is_that_of_the_last_failure(tmp_path: Path) -> None:
    report = '{"event": "failed", "reason": "no disk"}'
    path = program(tmp_path / "python", f"echo '{report}'; exit {EXIT_PERMANENT_FAILURE}")
    supervisor = Supervisor(child(path))
    asyncio.run(asyncio.wait_for(supervisor.run(), 60))
    assert supervisor.failure == "no disk"


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (-signal.SIGKILL, "was killed by signal 9, often for lack of memory"),
        (-signal.SIGSEGV, "was ended by SIGSEGV"),
        (1, "ended with status 1"),
    ],
)
def test_the_end_of_a_process_is_described_by_its_exit_status(status: int, ending: str) -> None:
    assert describe_end(status) == ending


@pytest.mark.full
def test_a_process_that_was_ready_once_is_always_restarted(tmp_path: Path) -> None:
    starts = tmp_path / "begun"
    script = f"test -s {starts} || {READY}; echo >> {starts}; exit 1"
    restarts: list[None] = []

    async def run() -> None:
        path = program(tmp_path / "python", script)
        supervisor = Supervisor(child(path), on_restart=lambda: restarts.append(None))
        running = asyncio.create_task(supervisor.run())
        await wait_until(lambda: len(restarts) == 6 or running.done())
        assert not running.done()
        supervisor.stop()
        await asyncio.wait_for(running, 60)

    asyncio.run(run())


def test_a_process_that_was_ready_is_replaced_without_a_delay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts = tmp_path / "begun"
    script = f"test $(wc -l < {starts}) = 2 || {READY}; echo >> {starts}; exit 1"
    starts.touch()
    restarts: list[None] = []

    path = program(tmp_path / "python", script)
    supervisor = Supervisor(child(path), on_restart=lambda: restarts.append(None))
    with caplog.at_level(logging.ERROR):
        asyncio.run(run_until(supervisor, lambda: len(restarts) >= 4))
    ending = "the thing ended with status 1; starting another"
    expected = [ending, ending, f"{ending} in 0.2 s", ending]
    assert [record.message for record in caplog.records][:4] == expected


@pytest.mark.parametrize("status", [0, 1, 2, 3, 128 + signal.SIGTERM])
def test_a_process_with_any_ordinary_exit_status_is_restarted(tmp_path: Path, status: int) -> None:
    async def run() -> None:
        restarted = asyncio.Event()
        path = program(tmp_path / "python", f"exit {status}")
        running = asyncio.create_task(Supervisor(child(path), on_restart=restarted.set).run())
        async with asyncio.timeout(60):
            await restarted.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_a_process_that_ends_without_reading_its_config_is_restarted() -> None:
    async def restart_once() -> None:
        restarted = asyncio.Event()
        process = child("/bin/false", b"config " * 100)
        running = asyncio.create_task(Supervisor(process, on_restart=restarted.set).run())
        waiting = asyncio.create_task(restarted.wait())
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert restarted.is_set() and not running.done(), "the supervisor has ended"
        running.cancel()
        await asyncio.wait([running])

    async def run() -> None:
        for _ in range(20):
            await asyncio.gather(*(restart_once() for _ in range(10)))

    asyncio.run(run())


def test_a_process_ends_with_a_cancelled_supervisor(tmp_path: Path) -> None:
    async def run() -> int:
        supervisor = Supervisor(child(program(tmp_path / "python", "sleep 60")))
        running = asyncio.create_task(supervisor.run())
        await wait_until(lambda: supervisor._process)
        assert supervisor._process is not None
        running.cancel()
        await asyncio.wait([running])
        return supervisor._process.pid

    assert not Path("/proc", str(asyncio.run(run()))).exists()
    gc.collect()  # would find descriptors that are still open


def test_a_process_reads_its_config_and_stops_at_the_end_of_stdin(tmp_path: Path) -> None:
    output = tmp_path / "found"
    script = f'read config; echo "$config $@" > {output}; cat > /dev/null; echo left >> {output}'
    supervisor = Supervisor(child(program(tmp_path / "python", script), b"a config"))
    asyncio.run(run_until(supervisor, lambda: output.exists() and output.read_text()))
    assert output.read_text() == "a config -P -m module\nleft\n"


def test_reports_are_passed_on_and_other_output_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f'{READY}; echo hello; echo \'{{"event": "news", "more": 1}}\'; cat > /dev/null'
    reports = list[Report]()
    supervisor = Supervisor(child(program(tmp_path / "python", script)), reports.append)
    with caplog.at_level(logging.INFO):
        asyncio.run(run_until(supervisor, lambda: len(reports) == 2))
    assert reports == [{"event": "ready"}, {"event": "news", "more": 1}]
    assert "hello" in caplog.text


def test_a_stop_after_a_process_has_ended_prevents_its_restart(
    tmp_path: Path,
) -> None:
    starts = tmp_path / "begun"

    async def run() -> None:
        path = program(tmp_path / "python", f"echo >> {starts}; exit 1")
        restarts = asyncio.Event()
        supervisor = Supervisor(child(path), on_restart=restarts.set)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(60):
            await restarts.wait()
            supervisor.stop()
            await running

    asyncio.run(run())
    assert starts.read_text() == "\n"


@pytest.mark.parametrize("timeout", [None, 0.02])
def test_a_process_that_does_not_stop_is_killed(
    tmp_path: Path, timeout: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        path = program(tmp_path / "python", f"read config; echo > {tmp_path}/up; exec sleep 600")
        limits = HangLimits(stop=0.1 if timeout is None else 600)
        supervisor = Supervisor(child(path, limits=limits), tick=TICK)
        running = asyncio.create_task(supervisor.run())
        await wait_until((tmp_path / "up").exists)
        supervisor.stop(timeout)
        await asyncio.wait_for(running, 60)

    asyncio.run(run())
    # With a limit of the caller the kill is intended, and no error in the log.
    assert ("has not finished in 0.1 s and is killed" in caplog.text) == (timeout is None)


def test_a_process_that_is_not_ready_in_time_is_killed_and_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        restarted = asyncio.Event()
        process = child(
            program(tmp_path / "python", "exec sleep 600"), limits=HangLimits(start=0.1)
        )
        supervisor = Supervisor(process, on_restart=restarted.set, tick=TICK)
        running = asyncio.create_task(supervisor.run())
        await asyncio.wait_for(restarted.wait(), 60)
        running.cancel()
        await asyncio.wait([running])

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "the thing is not ready after 0.1 s and is killed" in caplog.text


def test_a_process_is_killed_only_when_its_heartbeat_stops(tmp_path: Path) -> None:
    beats, restarted = [0.0], list[None]()

    async def run() -> None:
        limits = HangLimits(heartbeat_timeout=0.2, heartbeat=lambda: beats[0])
        process = child(program(tmp_path / "python", f"{READY}; exec sleep 600"), limits=limits)
        supervisor = Supervisor(process, on_restart=lambda: restarted.append(None), tick=TICK)
        running = asyncio.create_task(supervisor.run())
        for _ in range(50):
            beats[0] += 1
            await asyncio.sleep(TICK)
        assert not restarted
        await wait_until(lambda: restarted)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_a_process_that_is_not_in_use_is_not_checked(tmp_path: Path) -> None:
    beats, restarted, used = [-1.0], list[None](), tmp_path / "used"

    async def run() -> None:
        limits = HangLimits(heartbeat_timeout=0.1, heartbeat=lambda: beats[0])
        wait = f"until test -e {used}; do sleep 0.1; done"
        script = f"""{READY}; {wait}; echo '{{"event": "in_use"}}'; exec sleep 600"""
        process = child(program(tmp_path / "python", script), limits=limits)
        supervisor = Supervisor(process, on_restart=lambda: restarted.append(None), tick=TICK)
        running = asyncio.create_task(supervisor.run())
        await wait_until(lambda: supervisor.ready and supervisor._next_check is None)
        await asyncio.sleep(20 * TICK)
        assert not restarted and supervisor._next_check is None
        beats[0] = 2.0
        used.touch()
        await wait_until(lambda: restarted)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_children_of_a_process_end_with_it(tmp_path: Path) -> None:
    output = tmp_path / "found"

    async def run() -> None:
        script = f"sleep 600 & echo $! > {output}; exit {EXIT_PERMANENT_FAILURE}"
        await Supervisor(child(program(tmp_path / "python", script))).run()
        await wait_until(lambda: not is_alive(int(output.read_text())))

    asyncio.run(run())


class EndedProcess:
    """A process that has ended, whose number another one may have by now."""

    returncode, stdin = 1, None

    def __init__(self) -> None:
        self.pid = 1 << 30  # above the highest number

    async def wait(self) -> int:
        return self.returncode


def test_a_process_with_the_number_of_an_ended_one_is_left_alone() -> None:
    ended, spawned = EndedProcess(), list[None]()

    async def spawn(output: int) -> Process:
        spawned.append(None)
        if len(spawned) > 1:
            raise OSError("no free process")
        return ended

    async def run() -> None:
        supervisor = Supervisor(ChildSpec("the thing", spawn, bytes))
        running = asyncio.create_task(supervisor.run())
        await wait_until(lambda: spawned)
        other = subprocess.Popen(["sleep", "600"], start_new_session=True)
        ended.pid = other.pid
        try:
            await wait_until(lambda: len(spawned) == 3)
            supervisor.kill()
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(run())


def test_orphans_adopted_by_the_supervisor_leave_no_zombies(tmp_path: Path) -> None:
    output, subreaper = tmp_path / "found", 36  # of prctl: man 2 PR_SET_CHILD_SUBREAPER
    libc = ctypes.CDLL(None)

    async def run() -> None:
        restarts: list[None] = []
        path = program(tmp_path / "python", f"sleep 600 & echo $! >> {output}; exit 1")
        supervisor = Supervisor(child(path), on_restart=lambda: restarts.append(None))
        running = asyncio.create_task(supervisor.run())
        await wait_until(lambda: len(restarts) == 3)
        first = output.read_text().split()[0]
        assert not Path(f"/proc/{first}").exists()
        running.cancel()
        await asyncio.wait([running])

    libc.prctl(subreaper, 1, 0, 0, 0)
    try:
        asyncio.run(run())
    finally:
        libc.prctl(subreaper, 0, 0, 0, 0)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


def checks_until_fault(watchdog: Watchdog, limit: int = 100) -> tuple[int, str | None]:
    """The number of checks until the watchdog finds a fault, and the fault."""
    for count in range(1, limit + 1):
        if fault := watchdog.check():
            return count, fault
    return limit, None


def test_without_limits_there_is_never_a_fault() -> None:
    watchdog = Watchdog(HangLimits(stop=inf), 1)
    assert checks_until_fault(watchdog) == (100, None)
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (100, None)
    watchdog.note_stop_requested()
    assert checks_until_fault(watchdog) == (100, None)


def test_each_stage_has_its_own_limit() -> None:
    watchdog = Watchdog(HangLimits(start=3, stop=4, heartbeat_timeout=5), 1)
    watchdog.note_started()
    assert checks_until_fault(watchdog) == (3, "is not ready after 3 s")
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (5, "has shown no progress for 5 s")
    watchdog.note_started()
    assert checks_until_fault(watchdog) == (3, "is not ready after 3 s")
    watchdog.note_stop_requested()
    assert checks_until_fault(watchdog) == (4, "has not finished in 4 s")
    watchdog.note_stop_requested(2)
    assert checks_until_fault(watchdog) == (2, "has not finished in 2 s")


def test_a_changed_heartbeat_restarts_the_limit_of_silence() -> None:
    beats = iter([1.0, 1.0, 2.0, 3.0, 3.0, 3.0])
    watchdog = Watchdog(HangLimits(heartbeat_timeout=2, heartbeat=lambda: next(beats)), 1)
    watchdog.note_ready()
    assert checks_until_fault(watchdog) == (6, "has shown no progress for 2 s")
