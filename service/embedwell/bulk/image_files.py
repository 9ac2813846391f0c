"""Read and decode image files in threads, ahead of their computation."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyarrow.fs import PyFileSystem

from embedwell.bulk.errors import BulkError
from embedwell.bulk.files import resolve_filesystem
from embedwell_models.errors import ImageError
from embedwell_models.images.preprocessing import Pixels

_DECODERS = 4  # threads; Pillow decodes without Python's lock


Read = TypeVar("Read", Pixels, list[Pixels])
"""The pixels of an image, or of the images that a page becomes."""


@dataclass(frozen=True)
class ImageFiles(Generic[Read]):
    """Reader of images as the pixels of a model.

    pixels: decodes and resizes the bytes of a file, within a number of pixels. batch: images that
    are read at once.
    """

    pixels: Callable[[bytes, int], Read]
    max_pixels: int
    batch: int = _DECODERS

    def read(self, images: Sequence[bytes | str]) -> Iterator[list[Read | str]]:
        """Yield batches of pixels, or of reasons; the next one is decoded meanwhile.

        An image is the bytes of a file, or the address of a file.
        """
        with ThreadPoolExecutor(_DECODERS) as pool:
            begun: deque[list[Future[Read | str]]] = deque()
            for first in range(0, len(images), self.batch):
                batch = images[first : first + self.batch]
                begun.append([pool.submit(self._read, image) for image in batch])
                if len(begun) == 2:
                    yield [image.result() for image in begun.popleft()]
            for last in begun:
                yield [image.result() for image in last]

    def _read(self, image: bytes | str) -> Read | str:
        """Return the pixels of an image, or the reason why it has none."""
        try:
            data = image if isinstance(image, bytes) else _content(image)
            return self.pixels(data, self.max_pixels)
        except ImageError as error:
            return f"the image cannot be read: {error}"
        except (BulkError, OSError) as error:
            return f"the file cannot be read: {error}"


def _content(address: str) -> bytes:
    if not address:
        raise BulkError("its path is empty")
    files, path = resolve_filesystem(address)
    if isinstance(files, PyFileSystem):  # fsspec's, some of which fetch from any server
        raise BulkError(f"{address}: images are not fetched from such addresses")
    with files.open_input_file(path) as file:
        content: bytes = file.read()
    return content
