"""EmbedProgress: the rate, the share and the time left."""

import io

from embedwell_bulk.progress import EmbedProgress, WindowProgress, progress_line


class Clock:
    """Seconds that a test sets."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_has_the_rate_the_share_and_the_time_left() -> None:
    assert progress_line(3000, 2, 0.25, 0) == "3,000 texts, 1,500 texts/s, 25.0%, 0 min 6 s left"
    assert progress_line(10, 10_000, 0.5, 0).endswith("2 h 46 min left")
    assert progress_line(3000, 2, None, 0) == "3,000 texts, 1,500 texts/s"
    assert progress_line(1, 4, None, 0, "image") == "1 image, 0.25 images/s"


def test_the_rate_of_a_resumed_run_is_that_of_its_own_texts() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = EmbedProgress(stream, clock=clock)
    progress.begin(0.5)
    clock.seconds = 40
    progress.update(400, 0.6)
    assert stream.getvalue() == "400 texts, 10 texts/s, 60.0%, 2 min 40 s left\n"


def test_a_log_gets_a_line_every_half_a_minute_and_the_last_one() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = EmbedProgress(stream, clock=clock)
    progress.begin(0)
    for second in range(1, 62):
        clock.seconds = second
        progress.update(1, second / 100)
    progress.end()
    assert len(stream.getvalue().splitlines()) == 3


def test_a_terminal_gets_one_line_that_is_written_again() -> None:
    stream, clock = Terminal(), Clock()
    progress = EmbedProgress(stream, clock=clock)
    progress.begin(0)
    for second in (1, 2):
        clock.seconds = second
        progress.update(1, second / 3)
    progress.end()
    assert stream.getvalue().count("\r") == 3 and stream.getvalue().count("\n") == 1


def test_a_window_counts_repeated_texts_at_its_end() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = EmbedProgress(stream, clock=clock)
    progress.begin(0)
    window = WindowProgress(progress, 10, 0.0, 0.5)
    clock.seconds = 50
    window.advance(4)
    clock.seconds = 100
    window.end()
    first, last = stream.getvalue().splitlines()
    assert first.startswith("4 texts") and "20.0%" in first
    assert last.startswith("10 texts") and "50.0%" in last


def test_the_share_does_not_fall_when_the_last_texts_of_a_window_come_late() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = EmbedProgress(stream, clock=clock)
    progress.begin(0)
    first, second = WindowProgress(progress, 10, 0.0, 0.5), WindowProgress(progress, 10, 0.5, 1.0)
    for clock.seconds, window, count in ((50, first, 8), (100, second, 2), (150, first, 2)):
        window.advance(count)
    shares = [line.split(", ")[2] for line in stream.getvalue().splitlines()]
    assert shares == ["40.0%", "60.0%", "60.0%"]
