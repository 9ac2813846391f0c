"""Reading of several images on several threads."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from embedwell_models.encoder.threads import thread_count
from embedwell_vision.images.decoding import pixel_count

_MOST = 4  # threads, each of which may hold a prepared image

R = TypeVar("R")
Prepare = Callable[[bytes, int], R]
"""Function that decodes and resizes a file of at most so many pixels."""


def prepare_ahead(
    files: Sequence[Callable[[], bytes]],
    prepare: Prepare[R],
    max_pixels: int,
    threads: int | None = None,
) -> Iterator[Callable[[], R]]:
    """Yield for each file, in order, a function that returns what was prepared, or raises.

    max_pixels: limit of one image, and of all that are decoded at once. threads: most images that
    are prepared before the first of them is taken; by default those of a forward pass, up to four.
    """
    threads = threads or min(thread_count(), _MOST)
    if min(len(files), threads) < 2:
        yield from (partial(_prepare_one, file, prepare, max_pixels) for file in files)
        return
    budget = _PixelBudget(max_pixels)
    with ThreadPoolExecutor(threads) as pool:  # Pillow decodes and resizes without Python's lock
        for first in range(0, len(files), threads):
            group = files[first : first + threads]
            begun = [pool.submit(budget.prepare, file, prepare) for file in group]
            wait(begun)
            yield from (each.result for each in begun)


def _prepare_one(file: Callable[[], bytes], prepare: Prepare[R], max_pixels: int) -> R:
    return prepare(file(), max_pixels)


class _PixelBudget:
    """Number of pixels that may be decoded at once, on any thread."""

    def __init__(self, pixels: int) -> None:
        self._most = self._left = pixels
        self._changed = threading.Condition()

    def prepare(self, file: Callable[[], bytes], prepare: Prepare[R]) -> R:
        """Prepare a file as soon as its pixels are within the budget."""
        data = file()
        with self._taken(min(pixel_count(data), self._most)):
            return prepare(data, self._most)

    @contextmanager
    def _taken(self, pixels: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._left >= pixels)
            self._left -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._left += pixels
                self._changed.notify_all()
