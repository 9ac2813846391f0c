"""Progress with the rate and the remaining time, on a terminal or in a log."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

_SECONDS_BETWEEN = {True: 0.2, False: 30.0}  # between two lines, on a terminal and elsewhere


@dataclass
class EmbedProgress:
    """Counts texts from the first computed one, so that a resumed run shows its own rate.

    stream: None for no output.
    unit: what is counted, in the singular.
    clock: returns seconds.
    """

    stream: TextIO | None
    unit: str = "text"
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _start: tuple[float, float] | None = field(default=None, init=False)
    _texts: int = field(default=0, init=False)
    _done: float = field(default=0.0, init=False)
    _printed: float = field(default=0.0, init=False)

    @property
    def begun(self) -> bool:
        return self._start is not None

    def begin(self, done: float) -> None:
        """Start the clock at the first call.

        done: share of the input before that.
        """
        if self._start is None:
            self._printed = self.clock()
            self._start = self._printed, done

    def update(self, texts: int, done: float | None) -> None:
        """Count embedded texts.

        done: share of the input; None if its length is unknown. The largest value counts, because
            the last texts of a window may come after the first of the next one.
        """
        self._texts += texts
        if done is not None:
            done = self._done = max(self._done, done)
        if self.stream is not None:
            wait = _SECONDS_BETWEEN[self.stream.isatty()]
            if self.clock() - self._printed >= wait:
                self._print(self.stream, done)

    def end(self) -> None:
        """Print the last line."""
        if self.stream is not None and self._start is not None:
            self._print(self.stream, 1.0)
            if self.stream.isatty():
                self.stream.write("\n")

    def interrupt(self, message: str) -> None:
        """Print a message below the last line."""
        if self.stream is not None:
            end = "\n" if self.stream.isatty() and self._start is not None else ""
            self.stream.write(f"{end}{message}\n")
            self.stream.flush()

    def _print(self, stream: TextIO, done: float | None) -> None:
        start, done_before = self._start or (0.0, 0.0)
        self._printed = self.clock()
        seconds = self._printed - start
        line = progress_line(self._texts, seconds, done, done_before, self.unit)
        stream.write(f"\r\x1b[K{line}" if stream.isatty() else f"{line}\n")
        stream.flush()


@dataclass
class WindowProgress:
    """The progress of texts that are embedded together.

    before, after: share of the input without and with them; None if its length is unknown.
    """

    progress: EmbedProgress
    texts: int
    before: float | None
    after: float | None
    _computed: int = field(default=0, init=False)

    def advance(self, count: int) -> None:
        """Count distinct texts."""
        self._computed += count
        self.progress.update(count, self._share())

    def end(self) -> None:
        """Count the texts that equal others."""
        self.progress.update(self.texts - self._computed, self.after)

    def _share(self) -> float | None:
        if self.before is None or self.after is None:
            return None
        return self.before + (self.after - self.before) * self._computed / self.texts


def count(number: int, unit: str) -> str:
    """Write a number of things. unit: the word for one, whose plural ends in s."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


def progress_line(
    texts: int, seconds: float, done: float | None, done_before: float, unit: str = "text"
) -> str:
    """Describe the progress.

    done: share of the input.
    done_before: the share when the clock started.
    unit: what is counted, in the singular.
    """
    rate = texts / seconds if seconds else 0.0
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    line = f"{count(texts, unit)}, {shown} {unit}s/s"
    if done is None:
        return line
    if not done_before < done < 1:
        return f"{line}, {done:.1%}"
    left = round(seconds * (1 - done) / (done - done_before))
    return f"{line}, {done:.1%}, {_duration(left)} left"


def _duration(seconds: int) -> str:
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
