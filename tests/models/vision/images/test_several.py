"""Tests of reading several images on several threads."""

import threading
from functools import partial

import pytest

from embedwell_models.errors import ImageError
from embedwell_vision.images.decoding import decode, pixel_count
from embedwell_vision.images.several import prepare_ahead
from tests.models.image_models import encoded, picture

IMAGES = [encoded(picture(width, 10)) for width in (30, 40, 50, 60, 70)]
LIMIT = 1000


def width(data: bytes, max_pixels: int) -> int:
    return decode(data, max_pixels).width


class Observed:
    """A preparation that remembers how many images were prepared at once."""

    def __init__(self, at_once: int) -> None:
        """at_once: number of images that wait for each other."""
        self._lock, self._barrier = threading.Lock(), threading.Barrier(at_once)
        self._now = self.most = 0

    def __call__(self, data: bytes, max_pixels: int) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._barrier.wait(timeout=60)
        with self._lock:
            self._now -= 1
        return len(data)


class Noted:
    """A preparation that remembers the images that were prepared."""

    def __init__(self) -> None:
        self.images: list[bytes] = []

    def __call__(self, data: bytes, max_pixels: int) -> int:
        self.images.append(data)
        return len(data)


@pytest.mark.parametrize("limit", [LIMIT, 9 * LIMIT])
@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_results_and_errors_come_in_the_order_of_the_images(threads: int, limit: int) -> None:
    files = [partial(bytes, image) for image in [IMAGES[4], b"?", *IMAGES, IMAGES[0] * 2]]
    found: list[int | str] = []
    for prepared in prepare_ahead(files, width, limit, threads):
        try:
            found.append(prepared())
        except ImageError as error:
            found.append(str(error)[:10])
    assert found == [70, "it is in n", 30, 40, 50, 60, 70, 30]
    assert not [*prepare_ahead([], width, limit, threads)]


def test_a_file_that_cannot_be_fetched_is_the_error_of_its_image() -> None:
    def broken() -> bytes:
        raise ImageError("no base64")

    first, second = prepare_ahead([broken, partial(bytes, IMAGES[0])], width, LIMIT, 2)
    with pytest.raises(ImageError, match="no base64"):
        first()
    assert second() == 30


def test_images_are_prepared_at_the_same_time() -> None:
    prepare = Observed(3)
    files = [partial(bytes, image) for image in IMAGES[:3]]
    assert [each() for each in prepare_ahead(files, prepare, 3000, 3)] == [*map(len, IMAGES[:3])]
    assert prepare.most == 3


def test_an_image_is_not_held_up_by_the_next_ones() -> None:
    is_taken, was_held_up = threading.Event(), True

    def prepare(data: bytes, max_pixels: int) -> int:
        nonlocal was_held_up
        if data == IMAGES[1]:
            was_held_up = not is_taken.wait(timeout=10)
        return len(data)

    ahead = prepare_ahead([partial(bytes, image) for image in IMAGES[:2]], prepare, 9 * LIMIT, 2)
    next(ahead)()
    is_taken.set()
    next(ahead)()
    assert not was_held_up


def test_only_images_that_are_together_within_the_limit_are_prepared_before_they_are_taken() -> (
    None
):
    prepare = Noted()
    files = [partial(bytes, image) for image in IMAGES[:4]]  # 300 to 600 pixels, 3812 bytes
    every = [*prepare_ahead(files, prepare, 2000, 4)]
    assert sorted(prepare.images) == sorted(IMAGES[:2])
    assert [each() for each in every] == [*map(len, IMAGES[:4])]


def test_a_file_counts_as_its_bytes_if_its_pixels_are_fewer() -> None:
    prepare = Noted()
    files = [partial(bytes, image + bytes(2000)) for image in IMAGES[:3]]
    assert len([*prepare_ahead(files, prepare, 2500, 3)]) == 3
    assert not prepare.images


def test_files_are_fetched_on_the_calling_thread() -> None:
    threads = set[threading.Thread]()

    def fetched(image: bytes) -> bytes:
        threads.add(threading.current_thread())
        return image

    files = [partial(fetched, image) for image in IMAGES]
    assert len([each() for each in prepare_ahead(files, width, 3000, 3)]) == 5
    assert threads == {threading.current_thread()}


def test_an_image_beyond_the_limit_waits_for_no_room() -> None:
    files = [partial(bytes, image) for image in IMAGES]
    *small, large = prepare_ahead(files, width, 699, 5)
    assert [each() for each in small] == [30, 40, 50, 60]
    with pytest.raises(ImageError, match="the limit is 699"):
        large()


def test_the_header_tells_the_pixels_unless_the_file_is_refused() -> None:
    assert pixel_count(IMAGES[0]) == 300
    assert pixel_count(b"?") == pixel_count(IMAGES[0][:20]) == 0
