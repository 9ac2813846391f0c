"""The encoders of a model's images: one for images alone, or one for texts with images."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from embedwell_models.cpu_backend.quantization import QUANTIZED
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Inputs
from embedwell_models.loading.backends import why_torch_by_headers
from embedwell_models.precision.measurement_cache import LoadMeasurements
from embedwell_models.precision.trials import PrecisionChoice
from embedwell_models.vectors import Floats
from embedwell_models.vision import LAYERS
from embedwell_vision.image_embedder import ImageEmbedder, ImagePrecision, dtype_without_int8
from embedwell_vision.texts_with_images import TextsWithImages
from embedwell_vision.texts_with_images import load as load_texts_with_images


@dataclass(frozen=True)
class ImageEncoders:
    """The encoders of a model's images, of which it has one.

    dtype: the precision. why_torch: what torch computes; None if the kernels compute everything.
    embedder: encoder of images and of tiles of a page. load_texts: returns the encoder of texts
    with images of any size, which the first call loads.
    """

    dtype: str
    why_torch: str | None
    embedder: ImageEmbedder | None = None
    load_texts: Callable[[], TextsWithImages] | None = None

    @property
    def magnitudes(self) -> Mapping[str, Floats]:
        """Largest values of inputs, for int8; empty in another precision."""
        magnitudes = (self.embedder and self.embedder.magnitudes) or {}
        return {f"{LAYERS}{name}": each for name, each in magnitudes.items()}


def load(  # noqa: PLR0913, PLR0917 - the parts of one model
    description: ModelDescription,
    inputs: Inputs,
    texts: PrecisionChoice,
    device: Device,
    cpu_features: frozenset[str],
    measured: LoadMeasurements | None,
) -> ImageEncoders:
    """Load the image encoder of a model.

    inputs, texts: the text encoder. measured: by an earlier load, and not repeated. Raises
    ModelError for a checkpoint that lacks the encoder's tensors.
    """
    if description.image_tokens is None:
        known = _measured_of_images(measured)
        embedder = ImageEmbedder.load(description, device, texts.dtype, cpu_features, known)
        return ImageEncoders(embedder.dtype, embedder.why_torch, embedder)
    dtype = dtype_without_int8(texts.dtype, cpu_features)
    encoder = description.image_tokens.encoder
    reason = why_torch_by_headers(encoder, description.encoder, device, cpu_features)

    @cache
    def load_texts() -> TextsWithImages:
        parts = description, inputs, texts.encoder, device, dtype, cpu_features
        return load_texts_with_images(*parts, on_torch=reason is not None)

    return ImageEncoders(dtype, reason, load_texts=load_texts)


def _measured_of_images(measured: LoadMeasurements | None) -> ImagePrecision | None:
    if measured is None or measured.image_dtype is None:
        return None
    magnitudes = {
        name.removeprefix(LAYERS): each
        for name, each in (measured.input_magnitudes or {}).items()
        if name.startswith(LAYERS)
    }
    if measured.image_dtype in QUANTIZED and not magnitudes:
        return None
    return ImagePrecision(measured.image_dtype, magnitudes or None)
