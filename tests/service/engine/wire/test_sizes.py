"""Tests of the size classes of requests."""

from embedwell.engine.wire.sizes import SIZE_CLASSES, size_class, size_class_limit


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
