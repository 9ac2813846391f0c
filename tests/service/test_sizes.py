"""The classes of requests by their size."""

from service.engine.sizes import CLASSES, size_class


def test_a_query_is_of_the_first_class_and_each_next_is_twice_as_large() -> None:
    borders = [0, 1, 64, 65, 128, 129, 256, 257, 300_000]
    assert [size_class(tokens) for tokens in borders] == [0, 0, 0, 1, 1, 2, 2, 3, 13]


def test_there_is_a_last_class() -> None:
    assert size_class(10**12) == CLASSES - 1
