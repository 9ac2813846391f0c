"""Texts with images, whose tokens the text encoder of the same model reads."""

import threading
from collections.abc import Sequence

import torch

from embedwell_models.config.checkpoint_layout import ImageTokenSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Inputs
from embedwell_models.images.patches import Patches
from embedwell_models.torch_backend.image_tokens import ImageTokenEncoder, TextWithImagesEncoder
from embedwell_models.torch_backend.kernel_linear import TensorKernelLinearFactory
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import LinearFactory, torch_linear_factory
from embedwell_models.vectors import Floats


class TextsWithImages:
    """Encoder of texts with images, one at a time, so that no vector depends on a batch."""

    def __init__(
        self,
        spec: ImageTokenSpec,
        images: ImageTokenEncoder,
        inputs: Inputs,
        layers: TorchLayers,
        device: torch.device,
    ) -> None:
        """inputs, layers: the text encoder's."""
        self._inputs, self._spec, self._lock = inputs, spec, threading.Lock()
        self._images = images
        self._texts = TextWithImagesEncoder(inputs.config, spec, layers, device)

    def vectors(self, batch: Batch, images: Sequence[Patches], poolings: Sequence[str]) -> Floats:
        """Pool the last hidden states of a text with images: (1, poolings * D).

        batch: of one text, with `spec.id` for each token of an image.
        """
        merge = self._spec.merge
        grids = [(image.rows // merge, image.columns // merge) for image in images]
        with self._lock:
            tokens = [self._images(image) for image in images]
            vectors = self._inputs.part("token", batch)
            return self._texts(batch.ids, vectors, tokens, grids, poolings)


def image_linear_factory(
    device: torch.device, dtype: str, cpu_features: frozenset[str]
) -> LinearFactory:
    """Return the factory of linear layers in a floating-point precision.

    cpu_features: see embedwell_models.cpu_backend.library.
    """
    isa = library.best_isa(dtype, cpu_features) if device.type == "cpu" else None
    if isa is None:
        return torch_linear_factory(device, getattr(torch, dtype))
    return TensorKernelLinearFactory(KernelLinearFactory(isa, Packing(dtype)))
