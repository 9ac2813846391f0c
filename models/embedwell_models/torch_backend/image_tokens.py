"""Images as tokens of a text: an image encoder, and the pass of a text encoder over both.

N patches of an image, T tokens, D hidden size. One image and one text is computed at a time, so
that no vector depends on a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.checkpoint_layout import ImageTokenSpec
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Integers
from embedwell_models.images.patches import Patches
from embedwell_models.positions import tables
from embedwell_models.positions.schemes import Rotary
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import Norm, build_norm
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.position_hooks import set_angles
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import to_tensors
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class ImageTokens:
    """The tokens (n, D) of an image, and what is added to their states after the first layers."""

    tokens: Tensor
    additions: Sequence[Tensor]


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
        config, tensors = spec.encoder.config, to_tensors(weights)
        self._spec, self._device = spec, device
        self._layers = TorchLayers(config, tensors, linear, device)
        self._project = linear(tensors["patch.weight"], tensors["patch.bias"], name="patch")
        self._positions = tensors["position_table"].to(device)

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
        config, dtype = self._spec.encoder.config, self._layers.dtype
        row, column = _places(image, self._spec.merge)
        layout = SequenceLayout([len(row)], self._device, dtype)
        set_angles(layout, _rotary(config), self._angles(row, column), dtype)
        self._layers.prepare_layout(layout)
        patches = torch.from_numpy(image.values).to(self._device, dtype)
        hidden = self._project(patches).float() + self._interpolated(image, row, column)
        padded = hidden.new_zeros(layout.rows, hidden.shape[1])
        padded[: layout.tokens] = hidden
        states, added = padded.to(dtype), {}
        passes = self._layers.after_each(states, layout, config.num_layers)
        for index, after in enumerate(passes):
            if index in self._added or index == config.num_layers - 1:
                states = after.evaluate()[: layout.tokens].contiguous()
            if index in self._added:
                added[index] = self._added[index](states)
        return ImageTokens(self._merger(states), [added[index] for index in sorted(added)])

    def _angles(self, row: Integers, column: Integers) -> Tensor:
        # The first half of a head's pairs rotates by the row, the second by the column.
        frequencies = tables.frequencies(_rotary(self._spec.encoder.config))[::2]
        angles = [place[:, None] * frequencies for place in (row, column)]
        return torch.from_numpy(np.concatenate(angles, axis=1)).to(self._device)

    def _interpolated(self, image: Patches, row: Integers, column: Integers) -> Tensor:
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
            self._positions[torch.from_numpy(r * side + c).to(self._device)]
            * torch.from_numpy(weight).to(self._device)[:, None]
            for r, c, weight in corners
        )


class TextWithImagesEncoder:
    """Pass of the layers of a text encoder over a text with images."""

    def __init__(
        self, config: EncoderConfig, spec: ImageTokenSpec, layers: TorchLayers, device: torch.device
    ) -> None:
        self._config, self._spec, self._layers, self._device = config, spec, layers, device

    @torch.inference_mode()
    def __call__(
        self,
        ids: Integers,
        vectors: Floats,
        images: Sequence[ImageTokens],
        grids: Sequence[tuple[int, int]],
        poolings: Sequence[str],
    ) -> Floats:
        """Pool the states of a text: (1, poolings * D).

        vectors: (T, D), of the token ids (T,). grids: rows and columns of each image's tokens.
        """
        layout = SequenceLayout([len(ids)], self._device, self._layers.dtype)
        positions = axis_positions(ids == self._spec.id, grids)
        set_angles(layout, _rotary(self._config), self._angles(positions), self._layers.dtype)
        self._layers.prepare_layout(layout)
        places = torch.from_numpy(np.flatnonzero(ids == self._spec.id)).to(self._device)
        hidden = torch.zeros(layout.rows, vectors.shape[1], device=self._device)
        hidden[: len(ids)] = torch.from_numpy(vectors).to(self._device)
        hidden[places] = torch.cat([image.tokens for image in images]).float()
        hidden = hidden.to(self._layers.dtype)
        additions = [
            torch.zeros_like(hidden).index_copy_(0, places, torch.cat(parts).to(hidden.dtype))
            for parts in zip(*(image.additions for image in images), strict=True)
        ]
        states = self._layers(hidden, layout, self._config.num_layers, additions)
        result: Floats = pool(states, layout, poolings).cpu().numpy()
        return result

    def _angles(self, positions: Integers) -> Tensor:
        frequencies = tables.frequencies(_rotary(self._config))
        axes = np.zeros(len(frequencies), dtype=np.int64)
        for axis in (1, 2):
            axes[axis : 3 * self._spec.sections[axis] : 3] = axis
        return torch.from_numpy(positions[axes].T * frequencies).to(self._device)


def axis_positions(is_image: npt.NDArray[np.bool_], grids: Sequence[tuple[int, int]]) -> Integers:
    """Return the time, row and column of each token: (3, T).

    Those of a token of text are equal. An image takes as many positions as its longer side.

    is_image: (T,) whether a token is one of an image; two images are never side by side. grids: of
    the images, in order.
    """
    parts, start, remaining = [], 0, iter(grids)
    for image, group in groupby(is_image.tolist()):
        if image:
            rows, columns = next(remaining)
            row, column = np.divmod(np.arange(rows * columns), columns)
            parts.append(start + np.stack([np.zeros_like(row), row, column]))
            start += max(rows, columns)
        else:
            count = len(list(group))
            parts.append(np.tile(np.arange(start, start + count), (3, 1)))
            start += count
    return np.concatenate(parts, axis=1)


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


def _between(place: Integers, count: int, side: int) -> tuple[Integers, Integers, Floats]:
    """Return the two rows of a table around each place, and the share of the second.

    count: number of places, which lie evenly between the first and last of `side` rows.
    """
    exact = place * ((side - 1) / max(count - 1, 1))
    first = np.minimum(exact.astype(np.int64), side - 1)
    return first, np.minimum(first + 1, side - 1), (exact - first).astype(np.float32)
