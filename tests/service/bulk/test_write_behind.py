"""Parts that are written while the next ones are embedded: order, overlap and memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event

import numpy as np
import pytest

from embedwell.bulk.errors import BulkError
from embedwell.bulk.run import write_behind
from embedwell.bulk.text_encoder import Encoded

ENCODED = Encoded(np.zeros((0, 1), np.float32), {}, 0)


@dataclass
class LoggedEmbedding:
    """Logs when it is waited for. at_once: whether it is done when it has begun."""

    number: int
    at_once: bool
    log: list[str]

    def done(self) -> bool:
        return self.at_once

    def encoded(self) -> Encoded:
        self.log.append(f"embedded {self.number}")
        return ENCODED


def begin(log: list[str], at_once: bool) -> Iterator[LoggedEmbedding]:
    for number in range(4):
        log.append(f"begun {number}")
        yield LoggedEmbedding(number, at_once, log)


def test_a_part_begins_before_the_last_texts_of_the_one_before_are_waited_for() -> None:
    log: list[str] = []
    write_behind(begin(log, False), lambda part, _: log.append(f"written {part.number}"))
    assert log[:6] == ["begun 0", "begun 1", "embedded 0", "written 0", "begun 2", "embedded 1"]
    assert [entry for entry in log if entry.startswith("written")] == [
        f"written {number}" for number in range(4)
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_no_third_part_is_begun_before_the_first_is_written(at_once: bool) -> None:
    log: list[str] = []
    write_behind(begin(log, at_once), lambda part, _: log.append(f"written {part.number}"))
    for number in (2, 3):
        assert log.index(f"written {number - 2}") < log.index(f"begun {number}")


def test_a_part_that_is_done_is_written_while_the_next_one_is_embedded() -> None:
    begun = [Event() for _ in range(5)]
    begun[4].set()
    log: list[str] = []

    def parts() -> Iterator[LoggedEmbedding]:
        for part in begin(log, True):
            begun[part.number].set()
            yield part

    def write(part: LoggedEmbedding, _: Encoded) -> None:
        assert begun[part.number + 1].wait(10)
        log.append(f"written {part.number}")

    write_behind(parts(), write)
    assert log[-1] == "written 3"


def test_a_part_that_cannot_be_written_ends_the_run() -> None:
    def write(part: LoggedEmbedding, _: Encoded) -> None:
        raise BulkError(f"no space for {part.number}")

    log: list[str] = []
    with pytest.raises(BulkError, match="no space for 0"):
        write_behind(begin(log, True), write)
    assert "begun 2" not in log
