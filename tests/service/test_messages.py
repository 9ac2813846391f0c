"""What crosses the socket arrives as it was sent."""

import numpy as np
import pytest

from service.engine.messages import Failure, Job, Result


@pytest.mark.parametrize("output", ["pooled", 3, "token"])
def test_a_job_survives_the_wire(output: str | int) -> None:
    rows = [np.array(row, dtype=np.int32) for row in ([1, 2, 3], [4], [5, 6])]
    found = Job.parse([bytes(frame) for frame in Job(output, rows).frames()])
    assert found.output == output
    assert [row.tolist() for row in found.rows] == [[1, 2, 3], [4], [5, 6]]


def test_a_result_survives_the_wire() -> None:
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = Result.parse([bytes(frame) for frame in Result(vectors, 5, 7, 0.5).frames()])
    np.testing.assert_array_equal(found.vectors, vectors)
    assert (found.queue_us, found.compute_us, found.rate) == (5, 7, 0.5)


def test_a_failure_survives_the_wire() -> None:
    assert Failure.parse(Failure("why", 3).frames()) == Failure("why", 3)
