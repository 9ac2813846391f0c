"""Reading of several images on several threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from embedwell_models.encoder.threads import thread_count
from embedwell_models.errors import ImageError
from embedwell_vision.images.decoding import pixel_count

_MOST = 4  # threads, each of which may hold a prepared image

R = TypeVar("R")
File = Callable[[], bytes]
Prepare = Callable[[bytes, int], R]
"""Function that decodes and resizes a file of at most so many pixels."""


def prepare_ahead(
    files: Sequence[File],
    prepare: Prepare[R],
    max_pixels: int,
    threads: int | None = None,
) -> Iterator[Callable[[], R]]:
    """Yield for each file, in order, a function that returns what was prepared, or raises.

    max_pixels: limit of one image, and of all that are decoded at once. threads: most images that
    are prepared before the first of them is taken; by default up to four of the threads that
    `process_thread_count` allows: in an HTTP process OMP_NUM_THREADS, or else all processors.
    """
    threads = threads or min(thread_count(), _MOST)
    several = min(len(files), threads) > 1
    for group in _groups(files, max_pixels, threads) if several else ([file] for file in files):
        if len(group) == 1:
            yield partial(_prepare_one, group[0], prepare, max_pixels)
            continue
        with ThreadPoolExecutor(len(group)) as pool:  # Pillow works without Python's lock
            begun = [pool.submit(_prepare_one, file, prepare, max_pixels) for file in group]
            yield from (each.result for each in begun)


def _groups(files: Sequence[File], max_pixels: int, most: int) -> Iterator[list[File]]:
    """Yield up to so many files at a time, whose pixels are together within the limit.

    An image beyond the limit is alone.
    """
    group, room = list[File](), max_pixels
    for file in files:
        read, size = _fetched(file)
        if group and (size > room or len(group) == most):
            yield group
            group, room = [], max_pixels
        group.append(read)
        room -= size
    if group:
        yield group


def _fetched(file: File) -> tuple[File, int]:
    """Return a file that was fetched, and its pixels, or its bytes if they are more."""
    try:
        data = file()
    except ImageError:
        return file, 0  # which raises the error again, as that of its image
    return partial(bytes, data), max(pixel_count(data), len(data))


def _prepare_one(file: File, prepare: Prepare[R], max_pixels: int) -> R:
    return prepare(file(), max_pixels)
