"""The engine's loop on one thread or several: receive, schedule, compute, reply."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable

from embedwell.engine.wire.engine_state import EngineProgress
from embedwell.engine.wire.messages import pack_results
from embedwell.engine.worker.batch_dispatcher import BatchDispatcher, ScheduledBatch
from embedwell.engine.worker.batch_sizing import BatchSizing, Throughput
from embedwell.engine.worker.forward import ForwardModel, forward
from embedwell.engine.worker.job_table import JobTable, texts_of
from embedwell.engine.worker.receiver import MessageSource, Receiver
from embedwell_models.encoder.threads import single_threaded

log = logging.getLogger(__name__)


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
