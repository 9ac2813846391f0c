"""CANINE (Clark et al. 2022, arXiv 2103.06874), which downsamples characters for deep layers.

B texts, T tokens, C characters and M molecules of a CanineLayout, D width, N deep layers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.classic.canine.family import BLOCK, RATE
from embedwell_models.classic.canine.layout import CanineLayout
from embedwell_models.classic.own_layers_encoder import OwnLayersEncoder
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.model_description import ModelDescription
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory
from embedwell_models.torch_backend.norm import build_norm
from embedwell_models.vectors import Floats

_PRIMES = (31, 43, 59, 61, 73, 97, 103, 113, 137, 149, 157, 173, 181, 193, 211, 223)
_BLOCK = 1024  # characters whose windows are in memory at once


@dataclass(frozen=True)
class CanineOptions:
    """Options of CANINE. rate: characters of a molecule. block: attention block of characters."""

    rate: int
    block: int


class CanineEncoder(OwnLayersEncoder):
    """Encoder with a layer over characters, N layers over molecules, and a layer over characters.

    Numbers of states: 0 the embeddings of characters; 1 the output of the first layer; 2 to N + 2
    the states of each character's molecule, before and after each deep layer; N + 3 the input of
    the last layer; N + 4 its output.
    """

    def __init__(
        self,
        config: EncoderConfig,
        options: CanineOptions,
        weights: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> None:
        """linear: builds linear layers, with independent rows on a CPU."""
        super().__init__(config, device)
        self._options, self._embeddings = options, HashEmbeddings(config, weights, device)
        numbered = tuple(layer for layer in config.layers if layer.weights is not None)
        deep = replace(config, layers=numbered)
        self._deep = TorchLayers(deep, weights, linear, device)
        self._first, self._last = (
            _single_layer(config, weights, name, linear, device) for name in ("initial", "final")
        )
        self._downsample, self._upsample = (
            _convolution(config, weights, name, linear) for name in ("downsampling", "upsampling")
        )
        self._window = weights["upsampling.weight"].shape[1] // (2 * config.hidden_size)
        self._downsampled_norm, self._upsampled_norm = (
            build_norm(config, dict(weights), f"{name}_norm", device)
            for name in ("downsampling", "upsampling")
        )

    @classmethod
    def build(
        cls,
        description: ModelDescription,
        tensors: Mapping[str, Tensor],
        linear: LinearFactory,
        device: torch.device,
    ) -> Self:
        """Build the encoder from its weights, with the options in the folder's config.json."""
        file = JsonConfig(description.encoder / "config.json")
        options = CanineOptions(
            rate=file.get("downsampling_rate", RATE),
            block=file.get("local_transformer_stride", BLOCK),
        )
        return cls(description.spec.config, options, tensors, linear, device)

    def part(self, name: str, batch: Batch) -> Floats:
        """Return one of the embeddings whose sum is the input: (T, D)."""
        ids, positions = (
            torch.from_numpy(rows).to(self.device) for rows in (batch.ids, batch.positions)
        )
        part: Floats = self._embeddings.part(name, ids, positions).cpu().numpy()
        return part

    def hidden(self, batch: Batch, num_layers: int) -> Tensor:
        """Compute the states after the first `num_layers` layers: (T, D)."""
        layout = CanineLayout(batch, self._options.rate, self._options.block, self.device)
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

    def __init__(
        self, config: EncoderConfig, weights: Mapping[str, Tensor], device: torch.device
    ) -> None:
        count = sum(name.startswith("hash_table_") for name in weights)
        self._tables = [weights[f"hash_table_{index}"].to(device) for index in range(count)]
        self._positions = weights["position_table"].to(device)
        self._segment = weights["segment_table"][0].to(device)
        self._norm = build_norm(config, dict(weights), "norm", device)

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


def _single_layer(
    config: EncoderConfig,
    weights: Mapping[str, Tensor],
    name: str,
    linear: LinearFactory,
    device: torch.device,
) -> TorchLayers:
    single = replace(config, layers=(replace(config.layers[0], weights=0),))
    own = {
        theirs.replace(name, "layers.0", 1): tensor
        for theirs, tensor in weights.items()
        if theirs.startswith(f"{name}.")
    }
    return TorchLayers(single, own, linear, device)


def _convolution(
    config: EncoderConfig, weights: Mapping[str, Tensor], name: str, linear: LinearFactory
) -> Linear:
    # A convolution is a linear layer over concatenated states. Our layout: (D, width, channels).
    weight = weights[f"{name}.weight"]
    channels = config.hidden_size * (2 if name == "upsampling" else 1)
    by_place = weight.view(len(weight), channels, -1).transpose(1, 2).flatten(1).contiguous()
    return linear(by_place, weights[f"{name}.bias"], config.feed_forward.activation, name=name)
