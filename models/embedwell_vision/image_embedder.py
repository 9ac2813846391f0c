"""The image encoder of a model that embeds texts and images."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.quantization import QUANTIZED, Calibration, Magnitudes
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder, LinearFactory, layer_norm
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.loading.backends import OUTSIDE_LAYERS, Backend, choose_backend
from embedwell_models.model_files.vector_modules import projection_modules
from embedwell_models.precision.trials import (
    MIN_COSINE,
    EncoderFactoryProtocol,
    build_in_precision,
)
from embedwell_models.vectors import Floats
from embedwell_models.vision import Pixels
from embedwell_vision.attention_pooling import AttentionPooling
from embedwell_vision.image_weights import channels_first
from embedwell_vision.images.preprocessing import normalised_patches
from embedwell_vision.options import value_table
from embedwell_vision.positions import stretched_table
from embedwell_vision.references import ReferenceImageEmbedder
from embedwell_vision.specs import ImageSpec

log = logging.getLogger(__name__)

_CONNECTOR_EPS = 1e-5  # torch's default, which no file of a model states


class ImageEmbedder:
    """Embedder of images.

    dtype: the precision. magnitudes: what int8 was calibrated with; None in another precision.
    why_torch: what torch computes; None if the kernels compute everything. The vector of an image
    does not depend on the other images of its batch.
    """

    def __init__(
        self,
        spec: ImageSpec,
        parts: "ImageParts",
        encoder: Encoder,
        precision: "ImagePrecision",
        why_torch: str | None,
    ) -> None:
        self.spec, self.why_torch = spec, why_torch
        self.dtype, self.magnitudes = precision.dtype, precision.magnitudes
        self._parts, self._encoder = parts, encoder

    @classmethod
    def load(
        cls,
        description: ModelDescription,
        device: Device,
        dtype: str,
        cpu_features: frozenset[str],
        measured: "ImagePrecision | None" = None,
    ) -> "ImageEmbedder":
        """Load the image encoder of a model.

        dtype: the precision of the text encoder. The image encoder uses the same precision if the
        vectors of the reference images differ from their float32 vectors by no more than `auto`
        accepts for texts; int8 in place of int4. Otherwise int8 is replaced by bfloat16, which has
        to pass, too, and that by float32. Images that become tokens of a text are never in int8.

        measured: the precision of an earlier load, which is not tried again.

        Raises ModelError for a checkpoint that lacks the encoder's tensors.
        """
        spec, table = description.images, value_table(description)
        assert isinstance(spec, ImageSpec) and table is not None
        nothing = np.empty((0, spec.encoder.config.hidden_size), np.float32)
        tensors = weights.load(description.image_encoder, spec.encoder)
        layers = tensors.without(OUTSIDE_LAYERS, {"token_table": nothing})
        backend = choose_backend(spec.encoder, layers, device, cpu_features)
        parts = ImageParts(description, spec, table, tensors, backend)
        references = ReferenceImageEmbedder(spec.image_size, parts.embed)
        calibration = Calibration(references.calibrate, measured.magnitudes if measured else None)
        inputs = backend.inputs(spec.encoder, layers)
        factory = backend.image_encoders(layers, inputs, calibration)
        if measured:
            return cls(spec, parts, factory.build(measured.dtype), measured, backend.reason)
        chosen, encoder = _choose(factory, _candidates(dtype, spec, cpu_features), references)
        magnitudes = calibration.magnitudes if chosen in QUANTIZED else None
        return cls(spec, parts, encoder, ImagePrecision(chosen, magnitudes), backend.reason)

    def encode(self, images: Sequence[Pixels]) -> Floats:
        """Embed images of (height, width, 3) pixels in one forward pass: (B, dim).

        If blocks of patches become tokens of a text: (B * tokens, D), image by image.
        """
        return self._parts.embed(self._encoder, images)


@dataclass(frozen=True)
class ImagePrecision:
    """Precision of an image encoder. magnitudes: what int8 was calibrated with."""

    dtype: str
    magnitudes: Magnitudes | None


def dtype_without_int8(dtype: str, cpu_features: frozenset[str]) -> str:
    """Return the precision of an image encoder that is not in int8. dtype: that of texts."""
    if dtype not in QUANTIZED:
        return dtype
    return "bfloat16" if library.has_fast_bfloat16(cpu_features) else "float32"


class ImageParts:
    """The patch embedding before the layers and the head after the layers, in float32."""

    def __init__(
        self,
        description: ModelDescription,
        spec: ImageSpec,
        table: Floats,
        tensors: Weights,
        backend: Backend,
    ) -> None:
        """table: normalised value for each channel and byte, (3, 256)."""
        config = spec.encoder.config
        self._spec, self._table = spec, table
        self._classes = tensors.get("token_table", np.empty((0, config.hidden_size), np.float32))
        weight = tensors["patch.weight"]
        bias = tensors.get("patch.bias", np.zeros(len(weight), np.float32))
        self._positions = tensors.get("patch.positions")
        if spec.positions:  # its patches have the channels last
            weight = channels_first(weight, spec.patch_size)
        self._project = backend.device_linear(weight, bias)
        path = description.image_encoder.relative_to(description.path).as_posix()
        modules = projection_modules(path, config.hidden_size, spec.projection)
        self._head = VectorHead(description.path, modules, backend.linear)
        self._pool: AttentionPooling | None = None
        self._connect: Callable[[Floats], Floats] | None = None
        if spec.merge:
            self._connect = _connector(tensors, backend.linear)
        elif spec.projection is None and not spec.class_token:
            self._pool = AttentionPooling(
                config, tensors, backend.linear, adds_class_token=spec.adds_class_token
            )

    def embed(self, encoder: Encoder, images: Sequence[Pixels]) -> Floats:
        """Compute the vectors of images with an encoder, see ImageEmbedder.encode."""
        batch = Batch.of_vectors(self._token_vectors(images))
        if self._pool is None and self._connect is None:
            return self._head(encoder.vectors(batch, ("cls",)))
        states = encoder.states(batch, self._spec.encoder.config.num_layers)
        if self._connect is not None:
            return self._connect(self._blocks(states))
        assert self._pool is not None
        each = np.split(states, np.cumsum(batch.lengths)[:-1])
        return np.stack([self._pool(of_image) for of_image in each])

    def _blocks(self, states: Floats) -> Floats:
        """Concatenate the states of each block: (B * patches, D) -> (B * blocks, block * D)."""
        merge, width = self._spec.merge, states.shape[1]
        count = self._spec.grid // merge
        blocks = states.reshape(-1, count, merge, count, merge, width).transpose(0, 1, 3, 2, 4, 5)
        return np.ascontiguousarray(blocks).reshape(-1, merge**2 * width)

    def _token_vectors(self, images: Sequence[Pixels]) -> list[Floats]:
        """Return the class token and the projected patches of each image: (tokens, D)."""
        # One image at a time: the shapes are then the same in every batch.
        return [np.concatenate([self._classes, self._vectors(image)]) for image in images]

    def _vectors(self, pixels: Pixels) -> Floats:
        projected = self._project(self._patches(pixels))
        if self._positions is None:
            return projected
        rows, columns = (length // self._spec.patch_size for length in pixels.shape[:2])
        return projected + stretched_table(self._positions, rows, columns)

    def _patches(self, pixels: Pixels) -> Floats:
        """Normalize an image's pixels, patch by patch: (height, width, 3) -> (patches, numbers)."""
        side = self._spec.patch_size
        rows, columns = (length // side for length in pixels.shape[:2])
        whole = pixels[: rows * side, : columns * side]
        # Axes: rows and columns of patches; then channels, rows and columns of a patch.
        patches = whole.reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3)
        return normalised_patches(patches, self._table)


def _connector(tensors: Weights, linear: LinearFactory) -> Callable[[Floats], Floats]:
    """Build the projection of blocks of patches to tokens of a text, or a network of two layers."""
    if "connector.norm.weight" not in tensors:
        matrix = tensors["connector.weight"]
        nothing = np.zeros(len(matrix), np.float32)
        return linear(matrix, tensors.get("connector.bias", nothing))
    norm, up, down = (
        (tensors[f"connector.{name}.weight"], tensors[f"connector.{name}.bias"])
        for name in ("norm", "up", "down")
    )
    first, second = linear(*up, "gelu"), linear(*down)
    return lambda blocks: second(first(layer_norm(blocks, *norm, _CONNECTOR_EPS)))


def _candidates(dtype: str, spec: ImageSpec, cpu_features: frozenset[str]) -> list[str]:
    """Return the precisions to try for images. dtype: that of texts."""
    if dtype not in QUANTIZED:
        return [dtype]
    # A text's layers would amplify the errors of its images.
    return ["int8"] * (not spec.merge) + [dtype_without_int8(dtype, cpu_features)]


def _choose(
    factory: EncoderFactoryProtocol, candidates: Sequence[str], references: ReferenceImageEmbedder
) -> tuple[str, Encoder]:
    """Build the encoder in the first precision that is accurate enough; float32 if none is."""
    for each in candidates:
        if each not in factory.supported():
            continue
        choice = build_in_precision(factory, each, references)
        if all(trial.cosine >= MIN_COSINE for trial in choice.trials):
            return each, choice.encoder
        log.warning(
            "the image encoder does not compute in %s: the vectors of the reference images have a "
            "cosine of only %.5f with those in float32",
            *(each, min(trial.cosine for trial in choice.trials)),
        )
        del choice
    return "float32", factory.build("float32")
