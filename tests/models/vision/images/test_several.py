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


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_results_and_errors_come_in_the_order_of_the_images(threads: int) -> None:
    files = [partial(bytes, image) for image in [IMAGES[4], b"?", *IMAGES, IMAGES[0] * 2]]
    found: list[int | str] = []
    for prepared in prepare_ahead(files, width, LIMIT, threads):
        try:
            found.append(prepared())
        except ImageError as error:
            found.append(str(error)[:10])
    assert found == [70, "it is in n", 30, 40, 50, 60, 70, 30]
    assert not [*prepare_ahead([], width, LIMIT, threads)]


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
    assert [each() for each in prepare_ahead(files, prepare, 1200, 3)] == [*map(len, IMAGES[:3])]
    assert prepare.most == 3


def test_pixels_at_the_same_time_are_within_the_limit_of_one_image() -> None:
    prepare = Observed(1)
    files = [partial(bytes, image) for image in IMAGES[2:]]  # 500 pixels or more
    assert len([each() for each in prepare_ahead(files, prepare, 999, 3)]) == 3
    assert prepare.most == 1


def test_an_image_beyond_the_limit_waits_for_no_room() -> None:
    files = [partial(bytes, image) for image in IMAGES]
    *small, large = prepare_ahead(files, width, 699, 5)
    assert [each() for each in small] == [30, 40, 50, 60]
    with pytest.raises(ImageError, match="the limit is 699"):
        large()


def test_the_header_tells_the_pixels_unless_the_file_is_refused() -> None:
    assert pixel_count(IMAGES[0]) == 300
    assert pixel_count(b"?") == pixel_count(IMAGES[0][:20]) == 0
