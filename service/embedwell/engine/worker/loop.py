"""The engine's loop on one thread or several: receive, schedule, compute, reply.

Waiting texts are assigned to the threads that compute, batch by batch.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embedwell.engine.wire.engine_state import EngineProgress
from embedwell.engine.wire.messages import pack_results
from embedwell.engine.worker.batch_sizing import BatchSizing, Throughput
from embedwell.engine.worker.forward import ForwardModel, forward
from embedwell.engine.worker.job_table import JobPart, JobTable, texts_of
from embedwell.engine.worker.receiver import MessageSource, Receiver
from embedwell_models.encoder.threads import single_threaded

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ScheduledBatch:
    """Parts of jobs in one forward pass.

    tokens: tokens of all texts.
    single_threaded: whether it is computed on one thread.
    blocks_leader: whether it is one long text that keeps the leader from receiving messages.
    """

    parts: Sequence[JobPart]
    tokens: int
    single_threaded: bool
    blocks_leader: bool


class BatchDispatcher:
    """Assigns batches to threads; see `Loop` for the leader, followers and the spare thread.

    An exclusive text is computed while no other batch runs. The jobs of a batch are marked as
    running before it begins, so that the HTTP process knows what was computed if the engine dies.
    """

    def __init__(
        self,
        job_table: JobTable,
        throughput: Throughput,
        progress: EngineProgress,
        lock: threading.Lock,
    ) -> None:
        """progress: records each batch.

        lock: held while the job table is read or written.
        """
        self._job_table, self._throughput = job_table, throughput
        self._progress, self._lock = progress, lock
        self._work_available = threading.Condition(lock)  # wakes followers
        self._leader_blocks = threading.Condition(lock)  # wakes the spare thread
        self._batch_finished = threading.Condition(lock)  # wakes threads that wait to run alone
        self._single_threaded = self._leader_blocked = self._shutting_down = False
        self._exclusive = False  # an exclusive text runs or waits to run
        self._running = 0

    def next_for_leader(self) -> ScheduledBatch | None:
        """Return the leader's next batch, or None if no text waits.

        Blocks while an exclusive text is computed, or until one can be computed alone.
        """
        with self._lock:
            while self._exclusive:
                self._batch_finished.wait()
            waiting, running = self._job_table.waiting_tokens, self._running
            sizing = self._throughput.sizing
            self._single_threaded = single_threaded = sizing.use_one_thread(waiting, running)
            limit = sizing.next_batch_tokens(waiting, single_threaded, len(self._job_table))
            parts = self._job_table.take_batch(limit)
            longest = parts[0].tokens if _is_one_text(parts) else 0
            if not sizing.is_long(longest):
                return self._start(parts, single_threaded)
            self._leader_blocked = self._single_threaded = True
            self._leader_blocks.notify()
            use_all_threads = not running and sizing.use_all_threads(longest, waiting)
            return self._start(parts, single_threaded and not use_all_threads, blocks_leader=True)

    def next_for_follower(self) -> ScheduledBatch | None:
        """Wait for more work than the leader takes; return a batch, or None at shutdown."""
        with self._lock:
            self._work_available.wait_for(lambda: self._shutting_down or self._follower_needed())
            if self._shutting_down:
                return None
            job_table, sizing = self._job_table, self._throughput.sizing
            limit = sizing.next_batch_tokens(job_table.waiting_tokens, True, len(job_table))
            return self._start(job_table.take_batch(limit))

    def next_for_spare_thread(self) -> ScheduledBatch | None:
        """Return a batch of short texts if the leader is blocked and every follower is busy."""
        with self._lock:
            if not self._leader_blocked or self._exclusive or self._job_table.nothing_waits:
                return None
            if self._running < self._throughput.sizing.max_concurrent_batches:
                self._work_available.notify()
                return None
            return self._start(
                self._job_table.take_short_texts(self._throughput.sizing.full_single_threaded)
            )

    def wait_until_leader_blocked(self) -> bool:
        """Wait until the leader computes a long text; False at shutdown."""
        with self._lock:
            self._leader_blocks.wait_for(lambda: self._shutting_down or self._leader_blocked)
            return not self._shutting_down

    def finish(self, batch: ScheduledBatch) -> None:
        """Record that a batch was computed; the caller holds the lock."""
        self._running -= 1
        self._progress.end(batch)
        for part in batch.parts:
            job = part.job
            job.connection.running.end(job.number, part.stop - part.start)
        if batch.blocks_leader:
            self._leader_blocked = False
        if self._exclusive:
            self._exclusive = not batch.parts[0].job.job.exclusive
            self._work_available.notify_all()
            self._batch_finished.notify_all()

    def shut_down(self) -> None:
        """Release every waiting thread."""
        with self._lock:
            self._shutting_down = True
            self._work_available.notify_all()
            self._leader_blocks.notify_all()

    def _start(
        self, parts: Sequence[JobPart], single_threaded: bool = True, blocks_leader: bool = False
    ) -> ScheduledBatch | None:
        if self._single_threaded and not self._job_table.nothing_waits:
            self._work_available.notify()
        if not parts:
            return None
        if parts[0].job.job.exclusive:
            self._exclusive = True
            self._batch_finished.wait_for(lambda: not self._running)
        self._running += 1
        for part in parts:
            job = part.job
            job.connection.running.begin(job.number, part.stop - part.start)
        tokens = sum([part.tokens for part in parts])
        batch = ScheduledBatch(parts, tokens, single_threaded, blocks_leader)
        self._progress.begin(
            batch, self._throughput.expected_seconds(batch.tokens, single_threaded)
        )
        return batch

    def _follower_needed(self) -> bool:
        return self._single_threaded and not self._exclusive and not self._job_table.nothing_waits


def _is_one_text(parts: Sequence[JobPart]) -> bool:
    return len(parts) == 1 and parts[0].stop - parts[0].start == 1


class Loop:
    """Runs a batch as soon as there is work; the next one forms meanwhile.

    The leader, the thread that calls `run`, waits for messages and computes small batches with all
    of the model's threads. When more texts wait, followers compute single-threaded batches next to
    it: no thread waits for another, and a result is sent as soon as its batch is done.

    While the leader computes a long text, the spare thread receives messages, wakes followers, and
    computes short texts if all followers are busy.

    On a GPU two threads alternate as leaders: while the device computes the batch of one, the other
    receives, packs and queues the next, so that the device never waits.
    """

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        connections: MessageSource,
        model: ForwardModel,
        sizing: BatchSizing,
        rate: float,
        *,
        linger: float = 0.0,
        progress: EngineProgress | None = None,
    ) -> None:
        """rate: initial tokens per second of a full batch.

        linger: seconds for which an idle leader polls before it sleeps.
        progress: reports each batch; private counters by default.
        """
        self._model, self._sizing = model, sizing
        self._job_table, self._throughput = JobTable(), Throughput(sizing, rate)
        self._lock = threading.Lock()  # guards the job table and the batches
        self._receiver = Receiver(connections, self._job_table, self._lock, linger)
        progress = progress or EngineProgress()
        self._dispatcher = BatchDispatcher(self._job_table, self._throughput, progress, self._lock)

    def run(self) -> None:
        """Serve until the server shuts down."""
        sizing = self._sizing
        work = [self._run_follower] * (sizing.max_concurrent_batches - 1)
        work += [self._run_leader] * sizing.prefetch_depth
        if not sizing.prefetch_depth:
            work.append(self._run_spare_thread)
        # Daemons: a process whose first thread fails does not wait for them.
        helpers = [threading.Thread(target=_guard, args=[target], daemon=True) for target in work]
        for helper in helpers:
            helper.start()
        with contextlib.suppress(EOFError):
            self._run_leader()
        self._dispatcher.shut_down()
        for helper in helpers:
            helper.join()

    def _run_leader(self) -> None:
        while True:
            self.run_once()

    def run_once(self) -> None:
        """Receive messages, waiting if there is no work, and compute one batch."""
        self._receiver.poll_or_wait()
        if batch := self._dispatcher.next_for_leader():
            with single_threaded() if batch.single_threaded else contextlib.nullcontext():
                self._compute(batch)

    def _run_follower(self) -> None:
        with single_threaded():
            while batch := self._dispatcher.next_for_follower():
                self._compute(batch)
                self._receiver.poll()

    def _run_spare_thread(self) -> None:
        with single_threaded():
            while self._dispatcher.wait_until_leader_blocked():
                if batch := self._dispatcher.next_for_spare_thread():
                    self._compute(batch)
                    self._receiver.poll()
                else:
                    self._receiver.wait()

    def _compute(self, batch: ScheduledBatch) -> None:
        start = time.perf_counter()
        vectors = forward(self._model, texts_of(batch.parts))
        with self._lock:
            self._dispatcher.finish(batch)
            started_at = self._throughput.observe(
                batch.tokens, start, time.perf_counter(), batch.single_threaded
            )
            results_by_connection = self._job_table.collect(
                batch.parts, vectors, started_at, self._throughput.rate
            )
        # The lock is released, because packing large results takes long.
        for connection, results in results_by_connection.items():
            connection.send(*pack_results(results))


def _guard(work: Callable[[], None]) -> None:
    """Run a helper thread's loop; end the process if it fails."""
    try:
        with contextlib.suppress(EOFError):
            work()
    except BaseException:
        log.critical(
            "a thread of the engine failed; the engine exits and is started again", exc_info=True
        )
        os._exit(1)
