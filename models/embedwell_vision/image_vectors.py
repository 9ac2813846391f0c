"""Vectors of the images of a loaded model, from their pixels."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from embedwell_models.encoder.batch import Batch
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.loading.output_heads import OutputComputer, token_head
from embedwell_models.outputs.names import MULTI
from embedwell_models.vectors import Floats, TokenIds
from embedwell_models.vision import Pixels
from embedwell_vision.image_embedder import ImageEmbedder
from embedwell_vision.image_encoders import ImageEncoders
from embedwell_vision.images.pages import SquarePages, TiledPages
from embedwell_vision.images.patches import PatchPreprocessing
from embedwell_vision.images.tiles import TilePreprocessing


class ImageVectors:
    """Vectors of images, of texts with images and of pages; for the methods see TokenIdEmbedder."""

    def __init__(
        self,
        model: LoadedModel,
        batch: Callable[..., Batch],
        vectors: Callable[[Batch], Floats],
        outputs: OutputComputer,
    ) -> None:
        """batch: builds a batch of token ids, with the numbers of their first that are not pooled.

        vectors, outputs: the dense vectors and other outputs of a batch.
        """
        description = model.description
        assert isinstance(model.images, ImageEncoders)
        self._encoders, self._patches = model.images, description.patches
        self._pages, self._pooling = description.pages, description.recipe.pooling
        self._inputs, self._head = model.inputs, model.head
        self._batch, self._vectors, self._outputs = batch, vectors, outputs
        of_patches = isinstance(self._pages, PatchPreprocessing)
        self._token_head = token_head(model) if of_patches else None

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        if self._pages is not None:
            raise ValueError("the model has a vector for each token of an image; use encode_page")
        if self._patches is not None:
            raise ValueError("images are tokens of a text; use encode_with_images")
        return self._embedder.encode(images)

    def encode_page(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        assert self._pages is not None
        self._pages.check_tokens(ids, images)
        if isinstance(self._pages, PatchPreprocessing):
            assert self._encoders.load_texts is not None and self._token_head is not None
            cut = [self._pages.cut(pixels) for pixels in images]
            states = self._encoders.load_texts().states(self._batch([ids]), cut)
            return self._token_head(states)
        assert isinstance(self._pages, TiledPages | SquarePages)
        (outputs,) = self._outputs(self._read_tiles(self._pages, ids, images), [MULTI])
        assert outputs.multi is not None
        return outputs.multi

    def encode_with_images(self, ids: TokenIds, images: Sequence[Pixels]) -> Floats:
        assert isinstance(self._patches, PatchPreprocessing | TilePreprocessing)
        self._patches.check_tokens(ids, images)
        if isinstance(self._patches, TilePreprocessing):
            return self._vectors(self._read_tiles(self._patches, ids, images))
        assert self._encoders.load_texts is not None
        first, end = self._patches.pooled_tokens(ids)
        batch = self._batch([ids[:end]], [first])
        cut = [self._patches.cut(pixels) for pixels in images]
        encoder = self._encoders.load_texts()
        return self._head(encoder.vectors(batch, cut, self._pooling))

    def warm(self) -> None:
        """Load the encoder of texts with images, or embed an image."""
        if self._encoders.load_texts is not None:
            self._encoders.load_texts()
            return
        side = self._embedder.spec.image_size
        self._embedder.encode([np.zeros((side, side, 3), dtype=np.uint8)])

    @property
    def _embedder(self) -> ImageEmbedder:
        assert self._encoders.embedder is not None
        return self._encoders.embedder

    def _read_tiles(
        self,
        tiled: TiledPages | SquarePages | TilePreprocessing,
        ids: TokenIds,
        images: Sequence[Pixels],
    ) -> Batch:
        """Return a text with the vectors of the tiles in place of those of its image tokens."""
        batch = self._batch([ids])
        vectors = self._inputs.part("token", batch)
        vectors[batch.ids == tiled.spec.token_id] = self._embedder.encode(tiled.tiles(images))
        return replace(batch, ids=np.arange(len(vectors)), token_vectors=vectors)
