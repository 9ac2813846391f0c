"""Texts with images, whose tokens the text encoder of the same model reads."""

import threading
from collections.abc import Sequence

import torch

from embedwell_models.checkpoint import weights
from embedwell_models.config.checkpoint_layout import ImageTokenSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch, Row
from embedwell_models.encoder.encoder import Encoder, Inputs
from embedwell_models.images.patches import Patches
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.device import resolve_device
from embedwell_models.torch_backend.encoder import TorchEncoder
from embedwell_models.torch_backend.image_tokens import ImageTokenEncoder, TextWithImagesEncoder
from embedwell_models.torch_backend.kernel_linear import TensorKernelLinearFactory
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import LinearFactory, torch_linear_factory
from embedwell_models.vectors import Floats


class TextsWithImages:
    """Encoder of texts with images, on torch.

    Where the kernels compute texts, it has the layers of the text encoder a second time.
    """

    def __init__(
        self,
        description: ModelDescription,
        spec: ImageTokenSpec,
        inputs: Inputs,
        encoder: Encoder,
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """inputs, encoder: the text encoder's. Raises ModelError for tensors that are missing."""
        config, folder = description.spec.config, description.encoder
        self._inputs, self._spec, self._lock = inputs, spec, threading.Lock()
        tower = weights.load(folder, spec.encoder)
        self._images = ImageTokenEncoder(spec, tower, linear, device)
        if isinstance(encoder, TorchEncoder):
            layers = encoder.layers
        else:
            layers = TorchLayers(config, _layers(description), linear, device)
        self._texts = TextWithImagesEncoder(config, spec, layers, device)

    @classmethod
    def load(  # noqa: PLR0913
        cls,
        description: ModelDescription,
        inputs: Inputs,
        encoder: Encoder,
        device: str,
        dtype: str,
        cpu_features: frozenset[str],
    ) -> "TextsWithImages":
        """Load the image encoder of a model.

        dtype: that of the texts; for int8, images have bfloat16 or else float32. Raises ModelError
        if the checkpoint lacks the encoder.
        """
        spec = description.spec.image_tokens
        assert spec is not None
        place = resolve_device(device)
        if dtype == "int8":
            dtype = "bfloat16" if library.best_isa("bfloat16", cpu_features) else "float32"
        isa = library.best_isa(dtype, cpu_features) if place.type == "cpu" else None
        linear: LinearFactory = torch_linear_factory(place, getattr(torch, dtype))
        if isa is not None:
            linear = TensorKernelLinearFactory(KernelLinearFactory(isa, Packing(dtype)))
        return cls(description, spec, inputs, encoder, linear, place)

    def vectors(
        self, ids: Row, images: Sequence[Patches], poolings: Sequence[str]
    ) -> Floats:
        """Pool the last hidden states of a text with images: (1, poolings * D).

        ids: with `spec.id` for each token of an image.
        """
        batch, merge = Batch.of([ids]), self._spec.merge
        grids = [(image.rows // merge, image.columns // merge) for image in images]
        with self._lock:
            tokens = [self._images(image) for image in images]
            vectors = self._inputs.part("token", batch)
            return self._texts(batch.ids, vectors, tokens, grids, poolings)


def _layers(description: ModelDescription) -> dict[str, Floats]:
    stored = weights.load(description.encoder, description.spec)
    return {name: stored[name] for name in stored if name != "token_table"}
