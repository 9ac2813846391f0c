"""Encoder of an image, whose vectors are tokens of a text, on torch.

N patches, D hidden size of the text encoder. One image is computed at a time, so that no vector
depends on a batch.
"""

import threading
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.checkpoint.weights import StoredWeights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.device import Device
from embedwell_models.positions.schemes import Rotary
from embedwell_models.torch_backend.device import current_device, resolve_device
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.linear_adapters import TensorKernelLinearFactory
from embedwell_models.torch_backend.linear_choice import torch_linear_factory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.torch_backend.rotary import set_angles
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import Tensors, to_tensors
from embedwell_models.vectors import Floats
from embedwell_vision.image_tokens import ImageTokens, patch_order
from embedwell_vision.image_weights import PlaceTables
from embedwell_vision.images.patches import Patches
from embedwell_vision.positions import PatchPlaces, Windows
from embedwell_vision.specs import ImageTokenSpec


@dataclass(frozen=True)
class _Merger:
    """Projection of each block of patches to one token: (N, width) -> (N / block, D).

    joined: width of a block. norms_blocks: whether the norm sees whole blocks.
    """

    norm: Norm
    up: Linear
    down: Linear
    joined: int
    norms_blocks: bool

    def __call__(self, x: Tensor) -> Tensor:
        if self.norms_blocks:
            return self.down(self.up(self.norm(x.reshape(-1, self.joined))))
        return self.down(self.up(self.norm(x).reshape(-1, self.joined)))


def load(
    spec: ImageTokenSpec,
    weights: StoredWeights,
    device: Device,
    dtype: str,
    cpu_features: frozenset[str],
) -> "ImageTokenEncoder":
    """Load the encoder in a floating-point precision."""
    place = resolve_device(str(device))
    return ImageTokenEncoder(spec, weights, _linear_factory(place, dtype, cpu_features), place)


class ImageTokenEncoder:
    """Transformer over the patches of an image of any size, with positions of two axes."""

    def __init__(
        self,
        spec: ImageTokenSpec,
        weights: StoredWeights,
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        config, tensors = spec.encoder.config, to_tensors(weights, device)
        self._spec, self._device, self._lock = spec, device, threading.Lock()
        self._layers = TorchLayers(config, tensors, linear, device)
        weight = tensors["patch.weight"]
        bias = tensors.get("patch.bias", weight.new_zeros(len(weight)))
        self._project = linear(weight, bias, name="patch")
        table = tensors.get("patch.positions")
        self._positions = None if table is None else table.to(device)

        def merger(name: str) -> _Merger:
            up, down = (
                (tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"])
                for part in ("up", "down")
            )
            return _Merger(
                build_norm(config, tensors, f"{name}.norm", device, linear.dtype),
                linear(*up, "gelu", name=f"{name}.up"),
                linear(*down, name=f"{name}.down"),
                config.hidden_size * spec.merge**2,
                name != "connector",
            )

        self._places = PlaceTables.of(weights, config.hidden_size)
        self._merger = _means(spec, tensors, linear) if spec.of_gemma else merger("connector")
        self._added = {
            index: merger(f"connector.{place}") for place, index in enumerate(spec.deepstack)
        }

    @torch.inference_mode()
    def __call__(self, image: Patches) -> ImageTokens:
        """Compute the tokens of an image."""
        with self._lock, current_device(self._device):  # an image takes all threads
            return self._compute(image)

    def _compute(self, image: Patches) -> ImageTokens:
        spec, config, dtype = self._spec, self._spec.encoder.config, self._layers.dtype
        places, windows = patch_order(image, spec)
        values = torch.from_numpy(image.values)
        if windows:
            values = values[torch.from_numpy(windows.patches(spec.merge**2))]
        layouts = self._layouts(places, windows)
        hidden = self._project(values.to(self._device, dtype)).float()
        if self._positions is not None:
            hidden = hidden + self._interpolated(self._positions, places)
        if self._places is not None:
            vectors = torch.from_numpy(self._places.vectors(places))
            hidden = hidden + vectors.to(self._device)
        padded = hidden.new_zeros(layouts[0].rows, hidden.shape[1])
        padded[: len(hidden)] = hidden
        states, added = padded.to(dtype), {}
        for index, after in enumerate(self._layers.after_each(states, layouts)):
            if index in self._added or index == config.num_layers - 1:
                states = after.evaluate()[: len(hidden)].contiguous()
            if index in self._added:
                added[index] = _array(self._added[index](states))
        tokens = _array(self._merger(states))
        if windows:
            tokens = tokens[np.argsort(windows.blocks)]
        return ImageTokens(tokens, [added[index] for index in sorted(added)])

    def _layouts(self, places: PatchPlaces, windows: Windows | None) -> list[SequenceLayout]:
        """Return the layout of each layer: patches that attend to each other are a sequence."""
        config, dtype = self._spec.encoder.config, self._layers.dtype
        whole = within = SequenceLayout([len(places.row)], self._device, dtype)
        if windows:
            lengths = (windows.counts * self._spec.merge**2).tolist()
            within = SequenceLayout(lengths, self._device, dtype)
        angles = torch.zeros(whole.rows, config.attention.head_size // 2, dtype=torch.float64)
        angles[: whole.tokens] = torch.from_numpy(places.angles(config))
        for layout in {whole, within}:
            set_angles(layout, _rotary(config), angles.to(self._device), dtype)
            self._layers.prepare_layout(layout)
        are_whole = [index in self._spec.whole_layers for index in range(config.num_layers)]
        return [whole if is_whole else within for is_whole in are_whole]

    def _interpolated(self, table: Tensor, places: PatchPlaces) -> Tensor:
        """Resample the table of positions to the image's grid, linearly: (N, width)."""
        return sum(  # type: ignore[return-value]
            table[torch.from_numpy(rows).to(self._device)]
            * torch.from_numpy(shares).to(self._device)[:, None]
            for rows, shares in places.corners(self._spec.grid)
        )


def _means(spec: ImageTokenSpec, tensors: Tensors, linear: LinearFactory) -> Norm:
    """Build the projection of the means of blocks to tokens of a text: (N, width) -> (n, D)."""
    config, block, weight = spec.encoder.config, spec.merge**2, tensors["connector.weight"]
    project = linear(weight, weight.new_zeros(len(weight)), name="connector")
    width, dtype = config.hidden_size, linear.dtype

    def connect(states: Tensor) -> Tensor:
        means = states.float().reshape(-1, block, width).mean(1) * width**0.5
        return project(F.rms_norm(means, (width,), eps=config.norm_eps).to(dtype))

    return connect


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.float().cpu().numpy()
    return array


def _rotary(config: EncoderConfig) -> Rotary:
    positions = config.attention.positions
    assert isinstance(positions, Rotary)
    return positions


def _linear_factory(
    device: torch.device, dtype: str, cpu_features: frozenset[str]
) -> LinearFactory:
    """Return the factory of linear layers in a floating-point precision.

    cpu_features: see embedwell_models.cpu_backend.library.
    """
    isa = library.best_isa(dtype, cpu_features) if device.type == "cpu" else None
    if isa is None:
        return torch_linear_factory(device, getattr(torch, dtype))
    return TensorKernelLinearFactory(KernelLinearFactory(isa, Packing(dtype)))
