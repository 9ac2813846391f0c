"""Tests of who is given which pass."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from math import inf

from service.engine.protocol.messages import Job
from service.engine.protocol.progress import Progress
from service.engine.protocol.sizes import size_class
from service.engine.worker.batch_sizing import BatchSizing
from service.engine.worker.batches import Batch, Batches
from service.engine.worker.job_table import JobTable
from service.engine.worker.throughput import Throughput
from tests.service.rig import Memory, ids


class Given:
    """What is given out of texts of such lengths, each a job."""

    def __init__(self, *lengths: int, max_concurrent_batches: int = 2) -> None:
        self.connection, self.job_table, self.lock = Memory(), JobTable(), threading.Lock()
        throughput = Throughput(BatchSizing(2048, max_concurrent_batches), inf)
        self.batches = Batches(self.job_table, throughput, Progress(), self.lock)
        self.come(*lengths)

    def come(self, *lengths: int, exclusive: bool = False) -> None:
        for length in lengths:
            key = self.connection, len(self.job_table)
            job = Job("pooled", [ids([1] * length)], size=size_class(length), exclusive=exclusive)
            self.job_table.add(key, job)

    def finish(self, batch: Batch | None) -> None:
        assert batch
        with self.lock:
            self.batches.finish(batch)


def lengths(batch: Batch | None) -> list[int]:
    return [text.item.length for text in batch.texts] if batch else []


def test_few_texts_are_one_pass_of_all_threads() -> None:
    batch = (given := Given(200, 200)).batches.next_for_leader()
    assert (
        batch
        and not batch.single_threaded
        and not batch.blocks_leader
        and lengths(batch) == [200, 200]
    )
    assert given.batches.next_for_leader() is None


def test_when_much_waits_the_leader_and_a_follower_take_a_share_each() -> None:
    given = Given(300, 300, 300, 300)
    batch, other = given.batches.next_for_leader(), given.batches.next_for_follower()
    assert batch and batch.single_threaded and other and other.single_threaded
    assert lengths(batch) == lengths(other) == [300]


def test_nobody_stands_in_for_a_leader_that_is_there() -> None:
    given = Given(300, 300, 300, 300)
    given.finish(given.batches.next_for_leader())
    assert given.batches.next_for_spare_thread() is None


def test_beside_a_long_text_a_follower_takes_what_comes() -> None:
    given = Given(5000)
    batch = given.batches.next_for_leader()
    assert batch and batch.blocks_leader and not batch.single_threaded
    assert given.batches.wait_until_leader_blocked()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(given.batches.next_for_follower)
        given.come(5)
        assert given.batches.next_for_spare_thread() is None
        assert lengths(following.result(timeout=120)) == [5]


def test_beside_a_text_just_longer_than_a_pass_followers_take_what_comes() -> None:
    given = Given(600, max_concurrent_batches=4)
    batch = given.batches.next_for_leader()
    assert batch and batch.blocks_leader and not batch.single_threaded
    given.come(5)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(given.batches.next_for_follower)
        wait([following], timeout=120)
        given.batches.shut_down()
        assert lengths(following.result()) == [5]


def test_a_long_text_beside_running_passes_is_computed_by_one_thread() -> None:
    given = Given(300, 300)
    given.finish(given.batches.next_for_leader())
    assert lengths(given.batches.next_for_follower()) == [300]
    given.come(5000)
    batch = given.batches.next_for_leader()
    assert batch and batch.blocks_leader and batch.single_threaded and lengths(batch) == [5000]


def test_when_all_are_at_long_texts_what_is_short_is_left_to_who_stands_in() -> None:
    given = Given(5000, 5000, 5000)
    batch, other = given.batches.next_for_leader(), given.batches.next_for_follower()
    assert batch and batch.single_threaded and lengths(other) == [5000]
    assert given.batches.next_for_spare_thread() is None, "the third is as long"
    given.come(5, 600, 7)
    assert lengths(given.batches.next_for_spare_thread()) == [5, 7]
    given.finish(batch)
    given.come(9)
    assert given.batches.next_for_spare_thread() is None, "the leader is back"


def test_the_jobs_of_a_pass_run_until_it_is_done() -> None:
    given = Given(5, 6)
    assert 0 not in given.connection.running
    batch = given.batches.next_for_leader()
    assert (
        0 in given.connection.running
        and 1 in given.connection.running
        and 2 not in given.connection.running
    )
    given.finish(batch)
    assert 0 not in given.connection.running and 1 not in given.connection.running


def test_a_text_that_is_to_be_alone_waits_for_running_passes_and_others_wait_for_it() -> None:
    given = Given(300)
    first = given.batches.next_for_leader()
    given.come(7, exclusive=True)
    with ThreadPoolExecutor(2) as pool:
        leading = pool.submit(given.batches.next_for_leader)
        wait([leading], timeout=0.2)
        assert not leading.done() and 1 not in given.connection.running
        given.come(5)
        following = pool.submit(given.batches.next_for_follower)
        given.finish(first)
        exclusive = leading.result(timeout=60)
        assert lengths(exclusive) == [7] and 1 in given.connection.running
        wait([following], timeout=0.2)
        assert not following.done() and 2 not in given.connection.running
        given.finish(exclusive)
        assert lengths(following.result(timeout=60)) == [5]


def test_a_text_that_is_to_be_alone_shares_no_pass() -> None:
    given = Given()
    given.come(7, 8, exclusive=True)
    given.come(9, 9)
    found = []
    while batch := given.batches.next_for_leader():
        found.append(lengths(batch))
        given.finish(batch)
    assert sorted(found) == [[7], [8], [9, 9]]


def test_at_the_end_nobody_waits_any_more() -> None:
    given = Given()
    with ThreadPoolExecutor(2) as pool:
        following, leaving = (
            pool.submit(given.batches.next_for_follower),
            pool.submit(given.batches.wait_until_leader_blocked),
        )
        given.batches.shut_down()
        assert following.result(timeout=120) is None and not leaving.result(timeout=120)
