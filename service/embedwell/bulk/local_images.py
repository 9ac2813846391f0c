"""The image encoder of a model in this process as a TextEncoder."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyarrow.fs import PyFileSystem

from embedwell.bulk.errors import BulkError
from embedwell.bulk.files import resolve_filesystem
from embedwell.bulk.local_model import LocalModel, load_local_model
from embedwell.bulk.text_encoder import Advance, Pending
from embedwell.settings.settings import Settings
from embedwell_models.errors import ImageError
from embedwell_models.images.preprocessing import Pixels, Preprocessing
from embedwell_models.model_description import ModelDescription
from embedwell_models.vectors import Floats, normalize

_DECODERS = 4  # threads; Pillow decodes without Python's lock


@dataclass(frozen=True)
class LocalImages:
    """The image encoder of a model in this process, as a TextEncoder that reads images.

    An image is the bytes of a file, or the address of a file. batch: images of a forward pass.
    """

    model: LocalModel
    preprocessing: Preprocessing
    max_pixels: int
    batch: int

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def description(self) -> Mapping[str, Any]:
        images = self.model.embedder.images
        assert images is not None
        return {**self.model.description, "image_precision": images.dtype}

    def begin(self, images: Sequence[bytes | str], advance: Advance) -> Pending:
        """Like TextEncoder.begin; computes all vectors before it returns."""
        computed: Future[tuple[Floats, Mapping[int, str]]] = Future()
        computed.set_result(self.embed(images, advance))
        return computed

    def embed(
        self, images: Sequence[bytes | str], advance: Advance
    ) -> tuple[Floats, Mapping[int, str]]:
        """Return vectors (B, dim) of images, and the rejected images: see Encoded."""
        vectors = np.zeros((len(images), self.dim), dtype=np.float32)
        rejected: dict[int, str] = {}
        start = 0
        for prepared in self._prepared(images):
            pixels: dict[int, Pixels] = {}
            for index, image in enumerate(prepared, start):
                if isinstance(image, str):
                    rejected[index] = image
                else:
                    pixels[index] = image
            if pixels:
                vectors[[*pixels]] = self._vectors([*pixels.values()])
            advance(len(prepared))
            start += len(prepared)
        return vectors, rejected

    def _vectors(self, pixels: Sequence[Pixels]) -> Floats:
        embedder = self.model.embedder
        vectors = embedder.encode_images(pixels)
        return normalize(vectors) if embedder.sentence.normalize else vectors

    def _prepared(self, images: Sequence[bytes | str]) -> Iterator[list[Pixels | str]]:
        """Yield batches of pixels, or of reasons; the next one is decoded meanwhile."""
        with ThreadPoolExecutor(_DECODERS) as pool:
            begun: deque[list[Future[Pixels | str]]] = deque()
            for first in range(0, len(images), self.batch):
                batch = images[first : first + self.batch]
                begun.append([pool.submit(self._prepare, image) for image in batch])
                if len(begun) == 2:
                    yield [image.result() for image in begun.popleft()]
            for last in begun:
                yield [image.result() for image in last]

    def _prepare(self, image: bytes | str) -> Pixels | str:
        """Return the pixels of an image, or the reason why it has none."""
        try:
            data = image if isinstance(image, bytes) else _read(image)
            return self.preprocessing.pixels(data, self.max_pixels)
        except ImageError as error:
            return f"the image cannot be read: {error}"
        except (BulkError, OSError) as error:
            return f"the file cannot be read: {error}"


def _read(address: str) -> bytes:
    files, path = resolve_filesystem(address)
    if isinstance(files, PyFileSystem):  # fsspec's, some of which fetch from any server
        raise BulkError(f"{address}: images are not fetched from such addresses")
    with files.open_input_file(path) as file:
        content: bytes = file.read()
    return content


def load_local_images(settings: Settings) -> LocalImages:
    """Load the model of the settings. Raises BulkError, also for a model without image encoder."""
    model = load_local_model(settings, None)
    folder = settings.find_model()
    options = (settings.pooling, settings.rerank_format, settings.adapter)
    preprocessing = ModelDescription.read(folder, *options).preprocessing
    images = model.embedder.images
    if images is None or preprocessing is None:
        raise BulkError(f"{model.name} reads texts only; choose a model that embeds images")
    batch = max(1, model.budget // images.spec.tokens)
    return LocalImages(model, preprocessing, settings.max_image_pixels, batch)
