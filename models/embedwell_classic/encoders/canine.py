"""CANINE (Clark et al. 2022, arXiv 2103.06874), which downsamples characters for deep layers.

B texts, T tokens, C characters and M molecules (downsampled positions) of a CanineLayout, R
downsampling rate, D width, N deep layers.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_classic.encoders.custom_layers import CustomLayersEncoder, LayerBuilder
from embedwell_classic.families.canine import BLOCK, RATE
from embedwell_models.encoder.batch import Batch
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

_PRIMES = (31, 43, 59, 61, 73, 97, 103, 113, 137, 149, 157, 173, 181, 193, 211, 223)
_BLOCK = 1024  # characters whose windows are in memory at once


class CanineLayout:
    """Rows of B concatenated texts, which are padded at the end to at least R characters.

    No character attends to the padding, which makes the computation of shorter texts possible. Each
    text has a molecule of its first character, and a molecule for each R characters, without the
    last R to 2 R - 1 characters.

    texts, blocks, molecules: layouts of the sequences in which attention is computed. ids,
    positions: (C,) of each character. is_token: (C,) False for padding. molecule: (C,) row of each
    character's molecule, from which its state is upsampled. is_first: (M,) whether a molecule
    belongs to a first character. firsts: (B,) rows of these characters. sources: (M - B, R) rows of
    the characters of each other molecule.
    """

    def __init__(self, batch: Batch, rate: int, block: int, device: torch.device) -> None:
        """rate: R. block: characters that attend to each other in the first layer."""
        self.device = device
        lengths = batch.lengths.tolist()
        padded = [max(length, rate) for length in lengths]
        counts = [length // rate for length in padded]
        limited = padded != lengths
        self.texts = SequenceLayout(padded, device, key_counts=lengths if limited else None)
        blocks, keys = _blocks(padded, block), _blocks(lengths, block)
        self.blocks = SequenceLayout(blocks, device, key_counts=keys if limited else None)
        self.molecules = SequenceLayout(counts, device)
        sizes = torch.tensor(padded)
        starts = sizes.cumsum(0) - sizes
        positions = torch.arange(sum(padded)) - starts.repeat_interleave(sizes)
        is_token = positions < torch.tensor(lengths).repeat_interleave(sizes)
        ids = torch.zeros(len(positions), dtype=torch.int64)
        ids[is_token] = torch.from_numpy(batch.ids)
        of_texts = torch.tensor(counts)
        first_molecules = of_texts.cumsum(0) - of_texts
        last = (of_texts - 1).repeat_interleave(sizes)
        upsampled = torch.minimum(positions // rate + 1, last)
        upsampled += first_molecules.repeat_interleave(sizes)
        order = torch.arange(sum(counts)) - first_molecules.repeat_interleave(of_texts)
        begins = (starts.repeat_interleave(of_texts) + (order - 1) * rate)[order > 0]
        self.ids, self.positions, self.is_token = self._on_device(ids, positions, is_token)
        self.molecule, self.is_first, self.firsts, self.sources = self._on_device(
            upsampled, order == 0, starts, begins[:, None] + torch.arange(rate)
        )

    def windows(self, size: int) -> Tensor:
        """Return the rows of the `size` characters around each character: (C, size).

        If `size` is even, there is one more character on the right. Row C means a character outside
        the text.
        """
        lengths = self.texts.lengths.repeat_interleave(self.texts.lengths)[:, None]
        offsets = torch.arange(size, device=self.device) - (size - 1) // 2
        places = self.positions[:, None] + offsets
        rows = torch.arange(len(places), device=self.device)[:, None] + offsets
        return torch.where((places >= 0) & (places < lengths), rows, len(places))

    def _on_device(self, *tensors: Tensor) -> list[Tensor]:
        return [tensor.to(self.device) for tensor in tensors]


def _blocks(lengths: Sequence[int], size: int) -> list[int]:
    # Sizes of the blocks of each text; all blocks but the last are full.
    return [min(size, length - start) for length in lengths for start in range(0, length, size)]


class CanineEncoder(CustomLayersEncoder):
    """Encoder with a layer over characters, N layers over molecules, and a layer over characters.

    Numbers of states: 0 the embeddings of characters; 1 the output of the first layer; 2 to N + 2
    the states of each character's molecule, before and after each deep layer; N + 3 the input of
    the last layer; N + 4 its output.
    """

    def __init__(self, build: LayerBuilder) -> None:
        super().__init__(build)
        self._rate = build.options.get("downsampling_rate", RATE)
        self._block = build.options.get("local_transformer_stride", BLOCK)
        self._embeddings = HashEmbeddings(build)
        numbered = tuple(layer for layer in self.config.layers if layer.weights is not None)
        deep = replace(self.config, layers=numbered)
        self._deep = TorchLayers(deep, build.weights, build.factory, self.device)
        self._first, self._last = (_single_layer(build, name) for name in ("initial", "final"))
        self._downsample = _convolution(build, "downsampling", self.config.hidden_size)
        self._upsample = _convolution(build, "upsampling", 2 * self.config.hidden_size)
        self._window = build.weights["upsampling.weight"].shape[1] // (2 * self.config.hidden_size)
        self._downsampled_norm = build.norm("downsampling_norm")
        self._upsampled_norm = build.norm("upsampling_norm")

    def summand(self, name: str, batch: Batch) -> Tensor:
        """Return one of the embeddings whose sum is the input: (T, D)."""
        ids, positions = (
            torch.from_numpy(rows).to(self.device) for rows in (batch.ids, batch.positions)
        )
        return self._embeddings.part(name, ids, positions)

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers: (T, D)."""
        layout = CanineLayout(batch, self._rate, self._block, self.device)
        return self._hidden(layout, num_layers)[layout.is_token]

    def _hidden(self, layout: CanineLayout, num_layers: int) -> Tensor:
        # (C, D)
        deep = len(self._deep)
        characters = self._embeddings(layout.ids, layout.positions)
        characters = self._first(characters, layout.blocks, min(num_layers, 1))
        if num_layers < 2:
            return characters
        molecules = self._molecules(characters, layout)
        molecules = self._deep(molecules, layout.molecules, min(num_layers - 2, deep))
        repeated = molecules[layout.molecule]
        if num_layers < deep + 3:
            return repeated
        mixed = self._mix(torch.cat([characters, repeated], dim=1), layout)
        return self._last(mixed, layout.texts, num_layers - deep - 3)

    def _molecules(self, characters: Tensor, layout: CanineLayout) -> Tensor:
        # (C, D) -> (M, D)
        molecules = characters.new_empty(len(layout.is_first), characters.shape[1])
        molecules[layout.is_first] = characters[layout.firsts]
        if len(layout.sources):
            read = characters[layout.sources].flatten(1)
            molecules[~layout.is_first] = self._downsample(read)
        return self._downsampled_norm(molecules)

    def _mix(self, both: Tensor, layout: CanineLayout) -> Tensor:
        # (C, 2 D) -> (C, D), over a window of characters, with zeros outside the text.
        padded = F.pad(both, (0, 0, 0, 1))
        windows = torch.split(layout.windows(self._window), _BLOCK)
        mixed = torch.cat([self._upsample(padded[rows].flatten(1)) for rows in windows])
        return self._upsampled_norm(mixed)


class HashEmbeddings:
    """Vectors of characters: concatenated rows of several tables, chosen by a hash for each.

    Svenstrup et al. 2017 (arXiv 1709.03933).
    """

    def __init__(self, build: LayerBuilder) -> None:
        count = sum(name.startswith("hash_table_") for name in build.weights)
        self._tables = [build.tensor(f"hash_table_{index}") for index in range(count)]
        self._positions = build.tensor("position_table")
        self._segment = build.tensor("segment_table")[0]
        self._norm = build.norm("norm")

    def __call__(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed characters: (C,) -> (C, D)."""
        return self._norm(self._hashed(ids) + self._segment + self._positions[positions])

    def part(self, name: str, ids: Tensor, positions: Tensor) -> Tensor:
        """Return one of the summed embeddings by its name: (T, D)."""
        if name == "token":
            return self._hashed(ids)
        if name == "position":
            return self._positions[positions]
        return self._segment.expand(len(ids), -1)

    def _hashed(self, ids: Tensor) -> Tensor:
        tables = zip(self._tables, _PRIMES, strict=False)
        return torch.cat([table[(ids + 1) * prime % len(table)] for table, prime in tables], dim=1)


def _single_layer(build: LayerBuilder, name: str) -> TorchLayers:
    config = build.config
    single = replace(config, layers=(replace(config.layers[0], weights=0),))
    own = {
        theirs.replace(name, "layers.0", 1): tensor
        for theirs, tensor in build.weights.items()
        if theirs.startswith(f"{name}.")
    }
    return TorchLayers(single, own, build.factory, build.device)


def _convolution(build: LayerBuilder, name: str, channels: int) -> Linear:
    # A convolution is a linear layer over concatenated states. Our layout: (D, width, channels).
    weight, activation = build.weights[f"{name}.weight"], build.config.feed_forward.activation
    by_place = weight.view(len(weight), channels, -1).transpose(1, 2).flatten(1).contiguous()
    return build.factory(by_place, build.weights[f"{name}.bias"], activation, name=name)
