"""The image encoder of a model that embeds texts and images."""

import logging
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import ImageSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.pooled_vector_head import PooledVectorHead
from embedwell_models.images.preprocessing import Pixels, Preprocessing
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files.sentence import projection_modules
from embedwell_models.precision.encoder_factory import EncoderFactory
from embedwell_models.precision.reference_images import ReferenceImageEmbedder
from embedwell_models.precision.trials import MIN_COSINE, build_in_precision
from embedwell_models.torch_backend.attention_pooling import AttentionPooling
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.linear import torch_linear_factory
from embedwell_models.vectors import Floats

log = logging.getLogger(__name__)

_OWN = ("patch.", "pool.")  # tensors before and after the layers


class ImageEmbedder:
    """Embedder of images.

    dtype: the precision. The vector of an image does not depend on the other images of its batch.
    """

    def __init__(self, spec: ImageSpec, parts: "ImageParts", encoder: Encoder, dtype: str) -> None:
        self.spec, self.dtype = spec, dtype
        self._parts, self._encoder = parts, encoder

    @classmethod
    def load(
        cls,
        folder: ModelDescription,
        device: torch.device,
        dtype: str,
        cpu_features: frozenset[str],
        linear: LinearFactory,
    ) -> "ImageEmbedder | None":
        """Load the image encoder of a folder; return None if the model has none.

        dtype: the precision of the text encoder. The image encoder uses the same precision, except:
        int8 becomes bfloat16, because int8 is calibrated with texts. float32 is used if the vectors
        of the reference images differ from their float32 vectors by more than `auto` accepts for
        texts. linear: builds layers with independent, bit-identical rows.

        Raises ModelError for a checkpoint that lacks the encoder's tensors.
        """
        spec, preprocessing = folder.images, folder.preprocessing
        if spec is None or preprocessing is None:
            return None
        tensors = weights.load(folder.encoder, spec.encoder)
        tensors.setdefault(
            "token_table", np.empty((0, spec.encoder.config.hidden_size), np.float32)
        )
        parts = ImageParts(spec, preprocessing, tensors, _head(folder, spec, linear), device)
        layers = {name: each for name, each in tensors.items() if not name.startswith(_OWN)}
        factory = EncoderFactory(
            layers, parts.embeddings, lambda _: None, cpu_features=cpu_features
        )
        chosen, encoder = _choose(
            factory, dtype, ReferenceImageEmbedder(spec.image_size, parts.embed)
        )
        return cls(spec, parts, encoder, chosen)

    def encode(self, images: Sequence[Pixels]) -> Floats:
        """Embed images of (side, side, 3) pixels in one forward pass: (B, dim)."""
        return self._parts.embed(self._encoder, images)


class ImageParts:
    """The patch embedding before the layers and the head after the layers, in float32.

    embeddings: input of the layers.
    """

    def __init__(
        self,
        spec: ImageSpec,
        preprocessing: Preprocessing,
        tensors: Weights,
        head: PooledVectorHead,
        device: torch.device,
    ) -> None:
        config = spec.encoder.config
        self._spec, self._table, self._head = spec, preprocessing.table(), head
        with torch.inference_mode():
            self.embeddings = InputEmbeddings(config, tensors, device)
            weight = tensors["patch.weight"]
            bias = tensors.get("patch.bias", np.zeros(len(weight), np.float32))
            linear = torch_linear_factory(device, torch.float32)
            self._project = linear(torch.from_numpy(weight), torch.from_numpy(bias))
        self._pool = None if spec.projection else AttentionPooling(config, tensors)

    def embed(self, encoder: Encoder, images: Sequence[Pixels]) -> Floats:
        """Compute the vectors of images with an encoder: (B, dim)."""
        batch = Batch.of_vectors(self._token_vectors(images))
        if self._pool is None:
            return self._head(encoder.vectors(batch, ("cls",)))
        states = encoder.states(batch, self._spec.encoder.config.num_layers)
        return np.stack([self._pool(each) for each in np.split(states, len(images))])

    @torch.inference_mode()
    def _token_vectors(self, images: Sequence[Pixels]) -> Tensor:
        """Return the class token and the projected patches of images: (B, tokens, D)."""
        classes, device = self.embeddings.tokens, self.embeddings.device
        return torch.stack(
            [
                # One image at a time: the shapes are then the same in every batch.
                torch.cat([classes, self._project(torch.from_numpy(patches).to(device))])
                for patches in map(self._patches, images)
            ]
        )

    def _patches(self, pixels: Pixels) -> Floats:
        """Normalize an image's pixels, patch by patch: (side, side, 3) -> (patches, numbers)."""
        grid, side = self._spec.grid, self._spec.patch_size
        whole = pixels[: grid * side, : grid * side]
        # Axes: rows and columns of patches; then channels, rows and columns of a patch.
        patches = whole.reshape(grid, side, grid, side, 3).transpose(0, 2, 4, 1, 3)
        values: Floats = self._table[np.arange(3)[:, None, None], patches]
        return values.reshape(grid * grid, -1)


def _head(folder: ModelDescription, spec: ImageSpec, linear: LinearFactory) -> PooledVectorHead:
    path = folder.encoder.relative_to(folder.path).as_posix()
    width = spec.encoder.config.hidden_size
    return PooledVectorHead(folder.path, projection_modules(path, width, spec.projection), linear)


def _choose(
    factory: EncoderFactory, dtype: str, references: ReferenceImageEmbedder
) -> tuple[str, Encoder]:
    if dtype == "int8":
        dtype = "bfloat16" if "bfloat16" in factory.supported() else "float32"
    with torch.inference_mode():
        choice = build_in_precision(factory, dtype, references)
        if all(trial.cosine >= MIN_COSINE for trial in choice.trials):
            return dtype, choice.encoder
        log.warning(
            "the image encoder computes in float32: in %s the vectors of the reference images have "
            "a cosine of only %.5f with those in float32",
            *(dtype, min(trial.cosine for trial in choice.trials)),
        )
        del choice
        return "float32", factory.build("float32")
