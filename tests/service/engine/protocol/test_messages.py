"""What crosses the socket arrives as it was sent."""

from dataclasses import replace

import numpy as np

from service.engine.protocol.messages import (
    Failure,
    Job,
    Result,
    pack_jobs,
    pack_outcomes,
    unpack_jobs,
    unpack_outcomes,
)
from service.engine.protocol.wire import Message, MessageReader, pack


def over(message: Message) -> Message:
    """A message as it comes out at the other end, without its verb."""
    ((_, content), body), *none = MessageReader().feed(pack(*message))
    assert not none
    return content, body


def test_jobs_survive_the_wire_together() -> None:
    texts: list[tuple[str | int, list[list[int]]]] = [
        ("pooled", [[1, 2, 3], [4], [5, 6]]),
        (3, [[7]]),
        ("token", [[8, 9], [10]]),
    ]
    jobs = [Job(out, [np.array(row, dtype=np.int32) for row in rows]) for out, rows in texts]
    jobs[0] = replace(jobs[0], skips=[2, 0, 1], size=3, begun=1.5)
    found = dict(unpack_jobs(*over(pack_jobs(list(enumerate(jobs, 5))))))
    assert list(found) == [5, 6, 7]
    assert [(job.output, [row.tolist() for row in job.rows]) for job in found.values()] == texts
    assert [list(job.skips) for job in found.values()] == [[2, 0, 1], [], []]
    assert (found[5].size, found[5].begun) == (3, 1.5)


def test_results_and_failures_survive_the_wire_together() -> None:
    flat = np.arange(10, dtype=np.float32)
    sent: list[tuple[int, Result | Failure]] = [
        (1, Result(flat[:6].reshape(2, 3), 5, 7, 0.5)),
        (2, Failure("why", 3)),
        (9, Result(flat[6:].reshape(1, 4), 6, 8, 0.25)),
    ]
    for outcomes in (sent, sent[:1], sent[1:2]):
        found = list(unpack_outcomes(*over(pack_outcomes(outcomes))))
        assert [number for number, _ in found] == [number for number, _ in outcomes]
        for (_, got), (_, expected) in zip(found, outcomes, strict=True):
            if isinstance(expected, Failure):
                assert got == expected
                continue
            assert isinstance(got, Result)
            np.testing.assert_array_equal(got.vectors, expected.vectors)
            figures = (expected.queue_us, expected.compute_us, expected.rate)
            assert (got.queue_us, got.compute_us, got.rate) == figures
