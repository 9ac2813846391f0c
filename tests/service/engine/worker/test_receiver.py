"""Tests of what reads for the ledger, with lines in memory."""

import threading
from collections.abc import Iterator

import pytest

from service.engine.protocol.messages import Job, pack_jobs
from service.engine.worker.connections import GONE, Mail
from service.engine.worker.job_table import JobTable
from service.engine.worker.receiver import Receiver
from tests.service.rig import Memory, ids

LINE = Memory()


class Slow:
    """Lines on which nothing comes for whoever waits, until it is let go; keeps who waited."""

    def __init__(self, *mail: Mail) -> None:
        self.mail, self.waits = list(mail), list[bool]()
        self.waiting, self.free = threading.Event(), threading.Event()

    def receive(self, wait: bool) -> Mail:
        self.waits.append(wait)
        if wait:
            self.waiting.set()
            assert self.free.wait(timeout=120)
        return self.mail.pop(0) if self.mail else []


@pytest.fixture
def ledger() -> JobTable:
    return JobTable()


@pytest.fixture
def reading(ledger: JobTable) -> Iterator[tuple[Slow, Receiver]]:
    """A thread waits for a job."""
    lines = Slow(job(1))
    intake = Receiver(lines, ledger, threading.Lock())
    thread = threading.Thread(target=intake.wait)
    thread.start()
    assert lines.waiting.wait(timeout=120)
    yield lines, intake
    lines.free.set()
    thread.join()


def job(number: int) -> Mail:
    return [(LINE, pack_jobs([(number, Job("pooled", [ids([1])]))]))]


def test_jobs_come_in_and_go_with_who_forgets_them_or_leaves(ledger: JobTable) -> None:
    forgotten: Mail = [(LINE, (["cancel", 1], b""))]
    intake = Receiver(Slow(job(1) + job(2), forgotten, [(LINE, GONE)]), ledger, threading.Lock())
    for left in (2, 1, 0):
        intake.glance()
        assert len(ledger) == left


def test_who_has_work_waits_for_nothing(ledger: JobTable) -> None:
    lines = Slow(job(1))
    lines.free.set()
    intake = Receiver(lines, ledger, threading.Lock())
    intake.look()
    intake.look()
    assert lines.waits == [True, False]


def test_who_has_work_does_not_wait_for_another_that_reads(
    ledger: JobTable, reading: tuple[Slow, Receiver]
) -> None:
    lines, intake = reading
    ledger.accept((LINE, 2), Job("pooled", [ids([1])]))
    intake.look()
    intake.glance()
    assert lines.waits == [True]


def test_who_has_none_takes_what_came_to_another_that_read(
    ledger: JobTable, reading: tuple[Slow, Receiver]
) -> None:
    lines, intake = reading
    threading.Timer(0.1, lines.free.set).start()
    intake.look()
    assert lines.waits == [True, False] and len(ledger) == 1


class Late:
    """Lines on which a job comes when they are asked for the third time; keeps who waited."""

    def __init__(self) -> None:
        self.waits = list[bool]()

    def receive(self, wait: bool) -> Mail:
        self.waits.append(wait)
        return job(1) if len(self.waits) == 3 else []


def test_who_has_nothing_to_do_looks_again_before_it_sleeps(ledger: JobTable) -> None:
    lines = Late()
    Receiver(lines, ledger, threading.Lock(), linger=20).look()
    assert lines.waits == [False, False, False, False] and len(ledger) == 1


def test_who_has_looked_long_enough_sleeps(ledger: JobTable) -> None:
    lines = Late()
    Receiver(lines, ledger, threading.Lock(), linger=0.0).look()
    assert lines.waits == [True]
    quiet = Slow()
    quiet.free.set()
    Receiver(quiet, ledger, threading.Lock(), linger=0.05).look()
    assert quiet.waits[-1] and not any(quiet.waits[:-1])


def test_who_stands_in_for_another_sleeps_at_once(ledger: JobTable) -> None:
    lines = Slow()
    lines.free.set()
    Receiver(lines, ledger, threading.Lock(), linger=20).wait()
    assert lines.waits == [True]
