"""Encoder of an image, whose vectors are tokens of a text.

N patches, D hidden size of the text encoder. One image is computed at a time, so that no vector
depends on a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Integers
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from embedwell_models.torch_backend.device import current_device
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.torch_backend.position_hooks import set_angles
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import to_tensors
from embedwell_models.vectors import Floats
from embedwell_vision.images.patches import Patches
from embedwell_vision.specs import ImageTokenSpec


@dataclass(frozen=True)
class ImageTokens:
    """The tokens (n, D) of an image, and what is added to their states after the first layers."""

    tokens: Floats
    additions: Sequence[Floats]


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


class ImageTokenEncoder:
    """Transformer over the patches of an image of any size, with positions of two axes."""

    def __init__(
        self, spec: ImageTokenSpec, weights: Weights, linear: LinearFactory, device: torch.device
    ) -> None:
        config, tensors = spec.encoder.config, to_tensors(weights, device)
        self._spec, self._device = spec, device
        self._layers = TorchLayers(config, tensors, linear, device)
        weight = tensors["patch.weight"]
        bias = tensors.get("patch.bias", weight.new_zeros(len(weight)))
        self._project = linear(weight, bias, name="patch")
        table = tensors.get("position_table")
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
                name != "merger",
            )

        self._merger = merger("merger")
        self._added = {
            index: merger(f"deepstack_merger_list.{place}")
            for place, index in enumerate(spec.deepstack)
        }

    @torch.inference_mode()
    def __call__(self, image: Patches) -> ImageTokens:
        """Compute the tokens of an image."""
        with current_device(self._device):
            return self._compute(image)

    def _compute(self, image: Patches) -> ImageTokens:
        spec, config, dtype = self._spec, self._spec.encoder.config, self._layers.dtype
        windows = _windows(image, spec.merge, spec.window) if spec.window else None
        row, column = _places(image, spec.merge)
        values = torch.from_numpy(image.values)
        if windows:
            order = windows.patches(spec.merge**2)
            row, column, values = row[order], column[order], values[torch.from_numpy(order)]
        layouts = self._layouts(row, column, windows)
        hidden = self._project(values.to(self._device, dtype)).float()
        if self._positions is not None:
            hidden = hidden + self._interpolated(self._positions, image, row, column)
        padded = hidden.new_zeros(layouts[0].rows, hidden.shape[1])
        padded[: len(row)] = hidden
        states, added = padded.to(dtype), {}
        for index, after in enumerate(self._layers.after_each(states, layouts)):
            if index in self._added or index == config.num_layers - 1:
                states = after.evaluate()[: len(row)].contiguous()
            if index in self._added:
                added[index] = _array(self._added[index](states))
        tokens = _array(self._merger(states))
        if windows:
            tokens = tokens[np.argsort(windows.blocks)]
        return ImageTokens(tokens, [added[index] for index in sorted(added)])

    def _layouts(
        self, row: Integers, column: Integers, windows: "_Windows | None"
    ) -> list[SequenceLayout]:
        """Return the layout of each layer: patches that attend to each other are a sequence."""
        config, dtype = self._spec.encoder.config, self._layers.dtype
        whole = within = SequenceLayout([len(row)], self._device, dtype)
        if windows:
            lengths = (windows.counts * self._spec.merge**2).tolist()
            within = SequenceLayout(lengths, self._device, dtype)
        angles = torch.zeros(whole.rows, config.attention.head_size // 2, dtype=torch.float64)
        angles[: whole.tokens] = self._angles(row, column)
        for layout in {whole, within}:
            set_angles(layout, _rotary(config), angles.to(self._device), dtype)
            self._layers.prepare_layout(layout)
        are_whole = [index in self._spec.whole_layers for index in range(config.num_layers)]
        return [whole if is_whole else within for is_whole in are_whole]

    def _angles(self, row: Integers, column: Integers) -> Tensor:
        # The first half of a head's pairs rotates by the row, the second by the column.
        frequencies = tables.frequencies(_rotary(self._spec.encoder.config))[::2]
        angles = [place[:, None] * frequencies for place in (row, column)]
        return torch.from_numpy(np.concatenate(angles, axis=1))

    def _interpolated(
        self, table: Tensor, image: Patches, row: Integers, column: Integers
    ) -> Tensor:
        """Resample the table of positions to the image's grid, linearly: (N, width)."""
        side = self._spec.grid
        below, above, share = _between(row, image.rows, side)
        left, right, aside = _between(column, image.columns, side)
        corners = (
            (below, left, (1 - share) * (1 - aside)),
            (below, right, (1 - share) * aside),
            (above, left, share * (1 - aside)),
            (above, right, share * aside),
        )
        return sum(  # type: ignore[return-value]
            table[torch.from_numpy(r * side + c).to(self._device)]
            * torch.from_numpy(weight).to(self._device)[:, None]
            for r, c, weight in corners
        )


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.float().cpu().numpy()
    return array


def _rotary(config: EncoderConfig) -> Rotary:
    positions = config.attention.positions
    assert isinstance(positions, Rotary)
    return positions


def _places(image: Patches, merge: int) -> tuple[Integers, Integers]:
    """Return the row and the column of each patch, block by block: (N,) each."""
    grid = np.indices((image.rows, image.columns))
    blocks = grid.reshape(2, image.rows // merge, merge, image.columns // merge, merge)
    row, column = blocks.transpose(0, 1, 3, 2, 4).reshape(2, -1)
    return row, column


@dataclass(frozen=True)
class _Windows:
    """Square windows of an image.

    blocks: the places of all blocks of patches in row order, window by window. counts: of the
    blocks of each window.
    """

    blocks: Integers
    counts: Integers

    def patches(self, block: int) -> Integers:
        """Return the places of all patches, window by window. block: patches of a block."""
        places: Integers = (self.blocks[:, None] * block + np.arange(block)).ravel()
        return places


def _windows(image: Patches, merge: int, side: int) -> _Windows:
    """Divide an image into windows of `side` blocks, of which the last ones may be smaller."""
    row, column = np.indices((image.rows // merge, image.columns // merge)).reshape(2, -1)
    window = row // side * image.columns + column // side
    return _Windows(np.argsort(window, kind="stable"), np.unique(window, return_counts=True)[1])


def _between(place: Integers, count: int, side: int) -> tuple[Integers, Integers, Floats]:
    """Return the two rows of a table around each place, and the share of the second.

    count: number of places, which lie evenly between the first and last of `side` rows.
    """
    exact = place * ((side - 1) / max(count - 1, 1))
    first = np.minimum(exact.astype(np.int64), side - 1)
    return first, np.minimum(first + 1, side - 1), (exact - first).astype(np.float32)
