"""Hand out waiting texts, batch by batch, to the threads that compute."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from service.engine.protocol.progress import Progress
from service.engine.worker.forward import Text
from service.engine.worker.job_table import JobTable
from service.engine.worker.throughput import Throughput


@dataclass(slots=True, eq=False)
class Batch:
    """Texts of one forward pass.

    tokens: of all texts. apart: on one thread. away: whether it is long, so that the leader is away
    meanwhile.
    """

    texts: Sequence[Text]
    tokens: int
    apart: bool
    away: bool


class Batches:
    """Which thread computes which batch; see `loop` for the leader, followers and the spare thread.

    A text that is to be alone is computed while no other batch runs. Before a batch begins, its
    jobs are marked as running: if the engine dies, the HTTP process sees what it was computing.
    """

    def __init__(
        self, job_table: JobTable, throughput: Throughput, progress: Progress, lock: threading.Lock
    ) -> None:
        """progress: notes each batch. lock: held while the job table is read or written."""
        self._job_table, self._throughput = job_table, throughput
        self._progress, self._lock = progress, lock
        self._work = threading.Condition(lock)  # for followers
        self._leave = threading.Condition(lock)  # of the leader
        self._done = threading.Condition(lock)  # with a batch
        self._apart = self._away = self._ended = False
        self._alone = False  # a text is computed that is to be alone, or waits until it can be
        self._running = 0

    def lead(self) -> Batch | None:
        """The leader's next batch, if there is work."""
        with self._lock:
            while self._alone:
                self._done.wait()
            waiting, running = self._job_table.waiting, self._running
            sizing = self._throughput.sizing
            self._apart = apart = sizing.apart(waiting, running)
            texts = self._job_table.take(sizing.size(waiting, apart))
            longest = len(texts[0].ids) if len(texts) == 1 else 0
            if not sizing.long(longest):
                return self._begin(texts, apart)
            self._away = self._apart = True
            self._leave.notify()
            together = not running and sizing.together(longest, waiting)
            return self._begin(texts, apart and not together, away=True)

    def follow(self) -> Batch | None:
        """A follower's next batch, when there is more than the leader takes; None at shutdown."""
        with self._lock:
            self._work.wait_for(lambda: self._ended or self._follows())
            if self._ended:
                return None
            most = self._throughput.sizing.size(self._job_table.waiting, True)
            return self._begin(self._job_table.take(most))

    def stand_in(self) -> Batch | None:
        """A batch of short texts, if the leader is away and every follower is busy."""
        with self._lock:
            if not self._away or self._alone or self._job_table.idle:
                return None
            if self._running < self._throughput.sizing.lanes:
                self._work.notify()
                return None
            return self._begin(self._job_table.short(self._throughput.sizing.full_apart))

    def left(self) -> bool:
        """Wait until the leader is away; False at shutdown."""
        with self._lock:
            self._leave.wait_for(lambda: self._ended or self._away)
            return not self._ended

    def done(self, one: Batch) -> None:
        """Note that a batch was computed; the caller holds the lock."""
        self._running -= 1
        self._progress.end(one)
        for text in one.texts:
            connection, number = text.item.job
            connection.running.end(number)
        if one.away:
            self._away = False
        if self._alone:
            self._alone = not one.texts[0].alone
            self._work.notify_all()
            self._done.notify_all()

    def end(self) -> None:
        """Shut down: release every waiting thread."""
        with self._lock:
            self._ended = True
            self._work.notify_all()
            self._leave.notify_all()

    def _begin(self, texts: Sequence[Text], apart: bool = True, away: bool = False) -> Batch | None:
        if self._apart and not self._job_table.idle:
            self._work.notify()
        if not texts:
            return None
        if texts[0].alone:
            self._alone = True
            self._done.wait_for(lambda: not self._running)
        self._running += 1
        for text in texts:
            connection, number = text.item.job
            connection.running.begin(number)
        one = Batch(texts, sum([text.item.length for text in texts]), apart, away)
        self._progress.begin(one, self._throughput.expected(one.tokens, apart))
        return one

    def _follows(self) -> bool:
        return self._apart and not self._alone and not self._job_table.idle
