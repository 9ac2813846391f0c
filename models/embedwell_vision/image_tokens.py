"""Encoder of an image, whose vectors are tokens of a text, in the compiled kernels.

N patches, D hidden size of the text encoder. One image is computed at a time, so that no vector
depends on a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from embedwell_models.checkpoint.weights import StoredWeights
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.encoder import layer_norm
from embedwell_models.loading.backends import OUTSIDE_LAYERS
from embedwell_models.vectors import Floats
from embedwell_vision.image_weights import PlaceTables
from embedwell_vision.images.patches import Patches
from embedwell_vision.positions import PatchPlaces, Windows
from embedwell_vision.specs import ImageTokenSpec


@dataclass(frozen=True)
class ImageTokens:
    """The tokens (n, D) of an image, and what is added to their states after the first layers."""

    tokens: Floats
    additions: Sequence[Floats]


class KernelImageTokenEncoder:
    """Transformer over the patches of an image of any size, with positions of two axes.

    Patches that attend to each other are a sequence: a window, or the whole image.
    """

    def __init__(
        self,
        spec: ImageTokenSpec,
        weights: StoredWeights,
        dtype: str,
        cpu_features: frozenset[str],
    ) -> None:
        config, packing = spec.encoder.config, Packing(dtype)
        isa = library.best_isa(dtype, cpu_features)
        assert isa is not None  # see why_torch, and compiled_precisions for the precision of texts
        nothing = np.empty((0, config.hidden_size), np.float32)
        layers = weights.without(OUTSIDE_LAYERS, {"token_table": nothing})
        packed = LayerWeights(config, layers, isa, packing)
        self._spec = spec
        self._encoder = KernelEncoder(InputTables.of(config, layers), packed, None)
        linear = KernelLinearFactory(isa, packing)
        patch = weights["patch.weight"]
        unbiased = np.zeros(len(patch), np.float32)
        self._project = linear(patch, weights.get("patch.bias", unbiased))
        self._positions = weights.get("patch.positions")
        self._places = PlaceTables.of(weights, config.hidden_size)
        build = _mean_connector if spec.of_gemma else _connector
        self._connect = build("connector", spec, weights, linear)
        self._added = {
            index: _connector(f"connector.{place}", spec, weights, linear)
            for place, index in enumerate(spec.deepstack)
        }

    def __call__(self, image: Patches) -> ImageTokens:
        """Compute the tokens of an image."""
        places, windows = patch_order(image, self._spec)
        block = self._spec.merge**2
        values = image.values if windows is None else image.values[windows.patches(block)]
        states = self._project(values)
        if self._positions is not None:
            for rows, shares in places.corners(self._spec.grid):
                states += self._positions[rows] * shares[:, None]
        if self._places is not None:
            states += self._places.vectors(places)
        whole = within = np.array([len(states)])
        if windows:
            within = windows.counts * block
        rotations = self._encoder.rotations(places.angles(self._spec.encoder.config))
        additions = []
        for layers, is_whole in self._runs():
            batch = _batch(states, whole if is_whole else within)
            states = self._encoder.states_after(batch, layers, rotations)
            if (last := layers[-1]) in self._added:
                additions.append(self._added[last](states))
        tokens = self._connect(states)
        return ImageTokens(tokens[np.argsort(windows.blocks)] if windows else tokens, additions)

    def _runs(self) -> list[tuple[range, bool]]:
        """Return the layers that one call computes, and whether they see the whole image."""
        whole = [*map(self._spec.sees_whole, range(self._spec.encoder.config.num_layers))]
        ends = [
            index + 1
            for index, is_whole in enumerate(whole)
            if index in self._added or [is_whole] != whole[index + 1 : index + 2]
        ]
        return [(range(*run), whole[run[0]]) for run in pairwise([0, *ends])]


def patch_order(image: Patches, spec: ImageTokenSpec) -> tuple[PatchPlaces, Windows | None]:
    """Return the places of an image's patches, and its windows, which order them, if any."""
    rows, columns, merge = image.rows, image.columns, spec.merge
    places = PatchPlaces.of(rows, columns, merge)
    if not spec.window:
        return places, None
    windows = Windows.of(rows // merge, columns // merge, spec.window)
    return places[windows.patches(merge**2)], windows


def _batch(states: Floats, lengths: Integers) -> Batch:
    return Batch(np.arange(len(states)), lengths, np.zeros_like(lengths), token_vectors=states)


def _connector(
    name: str, spec: ImageTokenSpec, weights: StoredWeights, linear: KernelLinearFactory
) -> Callable[[Floats], Floats]:
    """Build the projection of blocks of patches to tokens of a text: (N, width) -> (n, D).

    The norm of the last states sees patches, that of earlier states whole blocks.
    """
    config = spec.encoder.config
    joined = config.hidden_size * spec.merge**2
    normed = config.hidden_size if name == "connector" else joined
    scale = weights[f"{name}.norm.weight"]
    shift = weights.get(f"{name}.norm.bias", np.zeros_like(scale))
    up, down = (
        (weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"])
        for part in ("up", "down")
    )
    first, second = linear(*up, "gelu"), linear(*down)

    def connect(states: Floats) -> Floats:
        rows = np.ascontiguousarray(states.reshape(-1, normed))
        if config.norm == "rms":
            rows = _rms_norm(rows, config.norm_eps) * scale
        else:
            rows = layer_norm(rows, scale, shift, config.norm_eps)
        return second(first(rows.reshape(-1, joined)))

    return connect


def _mean_connector(
    name: str, spec: ImageTokenSpec, weights: StoredWeights, linear: KernelLinearFactory
) -> Callable[[Floats], Floats]:
    """Build the projection of the means of blocks to tokens of a text: (N, width) -> (n, D)."""
    config, block, weight = spec.encoder.config, spec.merge**2, weights[f"{name}.weight"]
    project = linear(weight, np.zeros(len(weight), np.float32))
    scale = np.float32(config.hidden_size**0.5)

    def connect(states: Floats) -> Floats:
        means = states.reshape(-1, block, config.hidden_size).mean(axis=1) * scale
        return project(_rms_norm(means, config.norm_eps))

    return connect


def _rms_norm(rows: Floats, eps: float) -> Floats:
    squares = np.square(rows).mean(axis=-1, keepdims=True)
    normed: Floats = rows / np.sqrt(squares + np.float32(eps))
    return normed
