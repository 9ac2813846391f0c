"""The engine's loop: receive, schedule, encode, reply; on one thread, or on some side by side."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

from models.encoder.threads import alone
from service.engine.protocol.messages import pack_outcomes
from service.engine.protocol.progress import Progress
from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.batches import Batch, Batches
from service.engine.worker.forward import Model, forward
from service.engine.worker.job_table import JobTable
from service.engine.worker.receiver import Connections, Receiver
from service.engine.worker.throughput import Throughput

log = logging.getLogger(__name__)


class Loop:
    """Starts a pass as soon as there is work; the next one forms while it runs.

    The thread that calls `run` leads: it waits for messages, and computes few texts with all of the
    model's threads. When more wait than that pays for, each thread computes passes of its own: none
    waits for another at a pass's end, and an answer leaves when its pass is done.

    While the leader is away, at a long text, another thread stands in for it: it reads what comes,
    calls the followers, and computes short texts where all of these are at something.

    Where a device computes, two threads take turns as leaders: while it is at the pass of one, the
    other reads, packs and queues what has come, so that the device does not wait for that.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        connections: Connections,
        model: Model,
        sizing: BatchSizing,
        rate: float,
        *,
        linger: float = 0.0,
        progress: Progress | None = None,
    ) -> None:
        """rate: tokens per second of a full pass, as measured before the first.

        linger: seconds in which a leader without work looks for some before it sleeps.
        progress: what tells of each pass.
        """
        self._model, self._sizing = model, sizing
        self._job_table, self._throughput = JobTable(), Throughput(sizing, rate)
        self._lock = threading.Lock()  # of the job table and the batches
        self._receiver = Receiver(connections, self._job_table, self._lock, linger)
        progress = progress or Progress()
        self._batches = Batches(self._job_table, self._throughput, progress, self._lock)

    def run(self) -> None:
        """Serve until the server is no more."""
        sizing = self._sizing
        work = [self._follow] * (sizing.lanes - 1) + [self._lead] * sizing.ahead
        if not sizing.ahead:
            work.append(self._stand_in)
        # Daemons: a process whose first thread fails does not wait for them.
        helpers = [threading.Thread(target=_guard, args=[each], daemon=True) for each in work]
        for helper in helpers:
            helper.start()
        with contextlib.suppress(EOFError):
            self._lead()
        self._batches.end()
        for helper in helpers:
            helper.join()

    def _lead(self) -> None:
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what has come, waiting for it if there is nothing to do, and run one pass."""
        self._receiver.look()
        if one := self._batches.lead():
            with alone() if one.apart else contextlib.nullcontext():
                self._work(one)

    def _follow(self) -> None:
        with alone():
            while one := self._batches.follow():
                self._work(one)
                self._receiver.glance()

    def _stand_in(self) -> None:
        with alone():
            while self._batches.left():
                if one := self._batches.stand_in():
                    self._work(one)
                    self._receiver.glance()
                else:
                    self._receiver.wait()

    def _work(self, one: Batch) -> None:
        start = time.perf_counter()
        found = forward(self._model, one.texts)
        with self._lock:
            self._batches.done(one)
            began = self._throughput.observe(one.tokens, start, time.perf_counter(), one.apart)
            results_by_connection = self._job_table.settle(
                one.texts, found, began, self._throughput.rate
            )
        # Large answers take long to pack: meanwhile other threads take and give what they have.
        for connection, outcomes in results_by_connection.items():
            connection.send(*pack_outcomes(outcomes))


def _guard(work: Callable[[], None]) -> None:
    """What a thread does until the server is no more; if it fails, so does the process."""
    try:
        with contextlib.suppress(EOFError):
            work()
    except BaseException:
        log.critical("a thread of the engine has failed, and the engine with it", exc_info=True)
        os._exit(1)
