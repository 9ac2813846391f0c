"""Tests of which thread receives which batch."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from math import inf

from embedwell.engine.wire.engine_state import EngineProgress
from embedwell.engine.wire.messages import Job, size_class
from embedwell.engine.worker.batch_sizing import BatchSizing, Throughput
from embedwell.engine.worker.job_table import JobTable
from embedwell.engine.worker.loop import BatchDispatcher, ScheduledBatch
from embedwell_models.encoder.batch import FlatRows
from tests.service.rig import FakeConnection, ids


class Queue:
    """Dispatcher of a queue of texts of these lengths, each of its own job."""

    def __init__(self, *lengths: int, max_concurrent_batches: int = 2) -> None:
        self.connection, self.job_table, self.lock = FakeConnection(), JobTable(), threading.Lock()
        throughput = Throughput(BatchSizing(2048, max_concurrent_batches), inf)
        self.dispatcher = BatchDispatcher(self.job_table, throughput, EngineProgress(), self.lock)
        self.add(*lengths)

    def add(self, *lengths: int, exclusive: bool = False) -> None:
        for length in lengths:
            key = self.connection, len(self.job_table)
            job = Job(
                "dense",
                FlatRows.of([ids([1] * length)]),
                size_class=size_class(length),
                exclusive=exclusive,
            )
            self.job_table.add(key, job)

    def finish(self, batch: ScheduledBatch | None) -> None:
        assert batch
        with self.lock:
            self.dispatcher.finish(batch)


def lengths(batch: ScheduledBatch | None) -> list[int]:
    return [part.tokens for part in batch.parts] if batch else []


def test_few_texts_are_one_batch_of_all_threads() -> None:
    batch = (queue := Queue(200, 200)).dispatcher.next_for_leader()
    assert (
        batch
        and not batch.single_threaded
        and not batch.blocks_leader
        and lengths(batch) == [200, 200]
    )
    assert queue.dispatcher.next_for_leader() is None


def test_of_many_texts_the_leader_and_a_follower_take_a_batch_each() -> None:
    queue = Queue(300, 300, 300, 300)
    batch, other = queue.dispatcher.next_for_leader(), queue.dispatcher.next_for_follower()
    assert batch and batch.single_threaded and other and other.single_threaded
    assert lengths(batch) == lengths(other) == [300]


def test_the_spare_thread_has_no_work_while_the_leader_reads() -> None:
    queue = Queue(300, 300, 300, 300)
    queue.finish(queue.dispatcher.next_for_leader())
    assert queue.dispatcher.next_for_spare_thread() is None


def test_a_follower_takes_new_texts_while_the_leader_computes_a_long_one() -> None:
    queue = Queue(5000)
    batch = queue.dispatcher.next_for_leader()
    assert batch and batch.blocks_leader and not batch.single_threaded
    assert queue.dispatcher.wait_until_leader_blocked()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(queue.dispatcher.next_for_follower)
        queue.add(5)
        assert queue.dispatcher.next_for_spare_thread() is None
        assert lengths(following.result(timeout=120)) == [5]


def test_a_follower_takes_new_texts_with_one_slightly_longer_than_a_batch() -> None:
    queue = Queue(600, max_concurrent_batches=4)
    batch = queue.dispatcher.next_for_leader()
    assert batch and batch.blocks_leader and not batch.single_threaded
    queue.add(5)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(queue.dispatcher.next_for_follower)
        wait([following], timeout=120)
        queue.dispatcher.shut_down()
        assert lengths(following.result()) == [5]


def test_a_long_text_during_other_batches_is_computed_by_one_thread() -> None:
    queue = Queue(300, 300)
    queue.finish(queue.dispatcher.next_for_leader())
    assert lengths(queue.dispatcher.next_for_follower()) == [300]
    queue.add(5000)
    batch = queue.dispatcher.next_for_leader()
    assert batch and batch.blocks_leader and batch.single_threaded and lengths(batch) == [5000]


def test_the_spare_thread_takes_short_texts_while_all_others_compute_long_ones() -> None:
    queue = Queue(5000, 5000, 5000)
    batch, other = queue.dispatcher.next_for_leader(), queue.dispatcher.next_for_follower()
    assert batch and batch.single_threaded and lengths(other) == [5000]
    assert queue.dispatcher.next_for_spare_thread() is None, "the third is as long"
    queue.add(5, 600, 7)
    assert lengths(queue.dispatcher.next_for_spare_thread()) == [5, 7]
    queue.finish(batch)
    queue.add(9)
    assert queue.dispatcher.next_for_spare_thread() is None, "the leader reads again"


def test_the_jobs_of_a_batch_are_running_until_it_is_finished() -> None:
    queue = Queue(5, 6)
    assert 0 not in queue.connection.running
    batch = queue.dispatcher.next_for_leader()
    assert (
        0 in queue.connection.running
        and 1 in queue.connection.running
        and 2 not in queue.connection.running
    )
    queue.finish(batch)
    assert 0 not in queue.connection.running and 1 not in queue.connection.running


def test_an_exclusive_text_waits_for_running_batches_and_others_wait_for_it() -> None:
    queue = Queue(300)
    first = queue.dispatcher.next_for_leader()
    queue.add(7, exclusive=True)
    with ThreadPoolExecutor(2) as pool:
        leading = pool.submit(queue.dispatcher.next_for_leader)
        wait([leading], timeout=0.2)
        assert not leading.done() and 1 not in queue.connection.running
        queue.add(5)
        following = pool.submit(queue.dispatcher.next_for_follower)
        queue.finish(first)
        exclusive = leading.result(timeout=60)
        assert lengths(exclusive) == [7] and 1 in queue.connection.running
        wait([following], timeout=0.2)
        assert not following.done() and 2 not in queue.connection.running
        queue.finish(exclusive)
        assert lengths(following.result(timeout=60)) == [5]


def test_the_other_leader_of_a_gpu_waits_for_an_exclusive_text() -> None:
    queue = Queue()
    queue.add(7, exclusive=True)
    exclusive = queue.dispatcher.next_for_leader()
    queue.add(5)
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(queue.dispatcher.next_for_leader)
        wait([leading], timeout=0.2)
        assert not leading.done()
        queue.finish(exclusive)
        assert lengths(leading.result(timeout=60)) == [5]


def test_the_spare_thread_computes_nothing_during_an_exclusive_text() -> None:
    queue = Queue(max_concurrent_batches=1)
    queue.add(5000, exclusive=True)
    batch = queue.dispatcher.next_for_leader()
    assert batch and batch.blocks_leader
    queue.add(5)
    assert queue.dispatcher.next_for_spare_thread() is None
    queue.finish(batch)
    assert lengths(queue.dispatcher.next_for_leader()) == [5]


def test_an_exclusive_text_shares_no_batch() -> None:
    queue = Queue()
    queue.add(7, 8, exclusive=True)
    queue.add(9, 9)
    batches = []
    while batch := queue.dispatcher.next_for_leader():
        batches.append(lengths(batch))
        queue.finish(batch)
    assert sorted(batches) == [[7], [8], [9, 9]]


def test_shutdown_releases_every_waiting_thread() -> None:
    queue = Queue()
    with ThreadPoolExecutor(2) as pool:
        following, spare = (
            pool.submit(queue.dispatcher.next_for_follower),
            pool.submit(queue.dispatcher.wait_until_leader_blocked),
        )
        queue.dispatcher.shut_down()
        assert following.result(timeout=120) is None and not spare.result(timeout=120)
