"""Tests that jobs and results arrive as they were sent."""

from dataclasses import replace

import numpy as np
import pytest

from embedwell.engine.wire.engine_sockets import Message, MessageReader, MessageToSend, pack
from embedwell.engine.wire.messages import (
    CONTENT,
    IMAGE,
    SIZE_CLASSES,
    Failure,
    Job,
    Result,
    pack_content,
    pack_jobs,
    pack_pixels,
    pack_results,
    size_class,
    size_class_limit,
    unpack_content,
    unpack_jobs,
    unpack_pixels,
    unpack_results,
)
from embedwell_models.encoder.batch import FlatRows


def transfer(message: MessageToSend) -> Message:
    """Return a message as it is received, without its type."""
    ((_, content), body), *others = MessageReader().feed(pack(*message))
    assert not others
    return content, body


def test_jobs_survive_the_wire_together() -> None:
    texts: list[tuple[str | int, list[list[int]]]] = [
        ("dense", [[1, 2, 3], [4], [5, 6]]),
        (3, [[7]]),
        ("token", [[8, 9], [10]]),
    ]
    jobs = [
        Job(out, FlatRows.of([np.array(row, dtype=np.int32) for row in rows]))
        for out, rows in texts
    ]
    jobs[0] = replace(jobs[0], prompt_token_counts=[2, 0, 1], size_class=3, created_at=1.5)
    received = dict(unpack_jobs(*transfer(pack_jobs(list(enumerate(jobs, 5))))))
    assert list(received) == [5, 6, 7]
    assert [
        (job.output, [row.tolist() for row in job.texts_ids]) for job in received.values()
    ] == texts
    assert [list(job.prompt_token_counts) for job in received.values()] == [[2, 0, 1], [], []]
    assert (received[5].size_class, received[5].created_at) == (3, 1.5)


def test_results_and_failures_survive_the_wire_together() -> None:
    flat = np.arange(10, dtype=np.float32)
    results: list[tuple[int, Result | Failure]] = [
        (1, Result(flat[:6].reshape(2, 3), 5, 7, 0.5)),
        (2, Failure("why", 3)),
        (9, Result(flat[6:].reshape(1, 4), 6, 8, 0.25)),
    ]
    for sent in (results, results[:1], results[1:2]):
        received = list(unpack_results(*transfer(pack_results(sent))))
        assert [number for number, _ in received] == [number for number, _ in sent]
        for (_, result), (_, expected) in zip(received, sent, strict=True):
            if isinstance(expected, Failure):
                assert result == expected
                continue
            assert isinstance(result, Result)
            np.testing.assert_array_equal(result.vectors, expected.vectors)
            times = (expected.queue_us, expected.compute_us, expected.rate)
            assert (result.queue_us, result.compute_us, result.rate) == times


@pytest.mark.parametrize("side", [1, 2, 3, 4, 7, 224, 337])
def test_pixels_travel_as_token_ids(side: int) -> None:
    noise = np.random.default_rng(side)
    images = [noise.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(3)]
    sent = Job(IMAGE, FlatRows.of([pack_pixels(image) for image in images]), image_tokens=5)
    ((_, received),) = unpack_jobs(*transfer(pack_jobs([(1, sent)])))
    assert (received.output, received.lengths, received.tokens) == (IMAGE, [5, 5, 5], 15)
    for packed, image in zip(received.texts_ids, images, strict=True):
        np.testing.assert_array_equal(unpack_pixels(packed), image)


def test_texts_with_images_travel_as_token_ids() -> None:
    noise = np.random.default_rng(0)
    sizes = [[], [(1, 1)], [(32, 64), (3, 5), (64, 32)]]
    contents = [
        [noise.integers(0, 256, (*size, 3), dtype=np.uint8) for size in each] for each in sizes
    ]
    ids = [np.arange(count, dtype=np.int32) for count in (4, 0, 7)]
    rows = [pack_content(*each) for each in zip(ids, contents, strict=True)]
    ((_, received),) = unpack_jobs(
        *transfer(pack_jobs([(1, Job(CONTENT, FlatRows.of(rows), image_tokens=9))]))
    )
    assert (received.output, received.tokens, received.is_packed) == (CONTENT, 27, False)
    for packed, row, images in zip(received.texts_ids, ids, contents, strict=True):
        found_ids, found = unpack_content(packed)
        np.testing.assert_array_equal(found_ids, row)
        for mine, image in zip(found, images, strict=True):
            np.testing.assert_array_equal(mine, image)


def test_a_query_is_of_the_first_class_and_each_next_is_twice_as_large() -> None:
    borders = [0, 1, 64, 65, 128, 129, 256, 257, 300_000]
    assert [size_class(tokens) for tokens in borders] == [0, 0, 0, 1, 1, 2, 2, 3, 13]


def test_a_class_has_requests_up_to_its_maximum() -> None:
    for size in range(SIZE_CLASSES - 1):
        assert (size_class(size_class_limit(size)), size_class(size_class_limit(size) + 1)) == (
            size,
            size + 1,
        )


def test_there_is_a_last_class() -> None:
    assert size_class(10**12) == SIZE_CLASSES - 1
