"""Weights of an encoder's layers, packed for the kernels."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from embedwell_models.checkpoint.weights import StoredWeights, Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import (
    FUSED_MATRICES,
    AttentionSpec,
    ConvolutionSpec,
    DeltaNetSpec,
    FeedForwardSpec,
    LayerSpec,
)
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.abi import (
    Convolution,
    DeltaHeads,
    DeltaNet,
    Expert,
    Experts,
    InputGate,
    Layer,
    Matrix,
    Norm,
    PartNorms,
    RelativeTables,
)
from embedwell_models.cpu_backend.head_padding import pad_heads, padded_size
from embedwell_models.cpu_backend.library import kernel
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing, WeightPacker, interleave_panels
from embedwell_models.cpu_backend.relative_positions import (
    DistanceScores,
    first_bias,
    relative_rows,
)
from embedwell_models.cpu_backend.rope_cache import distinct_rotations, paired_order
from embedwell_models.encoder.batch import Integers
from embedwell_models.positions.schemes import Disentangled, Scheme, TransformerXL
from embedwell_models.vectors import Floats

NORMS: Mapping[str, Mapping[str, str]] = {  # arrangement -> the norms of a layer's part
    "post": {"sum": "{}_norm"},
    "pre": {"input": "{}_norm"},
    "sandwich": {"input": "{}_norm", "output": "{}_output_norm"},
    "double_post": {"output": "{}_output_norm", "sum": "{}_norm"},
    "parallel": {"input": "{}_norm"},
    "parallel_one_norm": {"input": "{}_norm"},
}
_WHOLE = 64  # features of whole tiles
_UNLIMITED = 1 << 32  # a window that is wider than any text


class LayerWeights:
    """Packed layers of a model for an instruction set and a precision, with their memory.

    Raises AttributeError if the instruction set lacks the precision.
    """

    def __init__(self, config: EncoderConfig, weights: Weights, isa: str, packing: Packing) -> None:
        self.run = kernel(isa, f"encode_{packing.products}")
        exact = KernelLinearFactory(isa, Packing("float32"))
        build = _Builder(config, weights, WeightPacker(isa, packing), exact)
        self.layers = (Layer * config.num_layers)(*self._pack(build))
        self.distance_scores: DistanceScores | None = None
        if isinstance(config.attention.positions, TransformerXL):
            self.distance_scores = DistanceScores(config, weights, isa, packing, exact)
        self.gate_size = len(weights.get("gates_norm.weight", ()))
        self.embedding_norm, self.final_norm = build.norm("norm"), build.norm("final_norm")
        self._packer = build.packer  # owns the memory; the unpacked weights are freed

    def _pack(self, build: "_Builder") -> list[Layer]:
        return build.layers()


class OneLayerWeights(LayerWeights):
    """Layers of a model of which one at a time is packed."""

    def _pack(self, build: "_Builder") -> list[Layer]:
        self._build = build
        return []

    def pack_only(self, index: int) -> None:
        """Pack a layer, and free the memory of the one that was packed before."""
        build = replace(self._build, packer=self._build.packer.with_no_weights())
        self.layers[index] = build.layer(index, build.config.layers[index])
        build.release_pages()
        self.packer_of_layer = build.packer

    def without_embedding_norm(self) -> Self:
        """Return the same layers for a batch that has the states before one of them."""
        layers = copy(self)
        layers.embedding_norm = Norm()
        return layers


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Weights
    packer: WeightPacker
    exact: KernelLinearFactory  # in float32, for what is computed once

    def layers(self) -> list[Layer]:
        """Pack the layers; equal layers that share weights are packed once."""
        packed: dict[LayerSpec, Layer] = {}
        for index, spec in enumerate(self.config.layers):
            if spec not in packed:
                packed[spec] = self.layer(index, spec)
                self.release_pages()
        return [packed[spec] for spec in self.config.layers]

    def release_pages(self) -> None:
        """Release the memory of the file's pages that were read."""
        if isinstance(self.weights, StoredWeights):
            self.weights.release_pages()

    def layer(self, index: int, spec: LayerSpec) -> Layer:
        name, shares_norm = f"layers.{spec.weights}", self.config.arrangement == "parallel_one_norm"
        return Layer(
            **self._mixer(name, index, spec),
            **self._network(name, spec.feed_forward),
            attention_norms=self._norms(f"{name}.attention"),
            ffn_norms=self._norms(f"{name}.{'attention' if shares_norm else 'ffn'}"),
            inner_norm=self.norm(f"{name}.inner_norm", padding=padding_of(spec.feed_forward)),
            mixed_norm=self.norm(f"{name}.mixed_norm"),
            gate=self._gate(name, index),
        )

    def _mixer(self, layer: str, index: int, spec: LayerSpec) -> dict[str, Any]:
        if isinstance(spec.mixer, ConvolutionSpec):
            return self._convolution(layer, spec.mixer)
        if isinstance(spec.mixer, DeltaNetSpec):
            return self._delta_net(layer, spec.mixer)
        attention = spec.mixer
        assert isinstance(attention, AttentionSpec)  # see why_unsupported
        order = paired_order(attention.positions, attention.head_size)
        return {
            "qkv": self._heads(layer, attention, order),
            "output": self._output(layer, attention),
            "heads": heads_of(attention),
            "query_norm": self.norm(f"{layer}.query_norm", order),
            "key_norm": self.norm(f"{layer}.key_norm", order),
            "value_norm": self._value_norm(attention),
            "relative": self._relative(layer, attention),
            "rotation_index": self._rotation_index(attention),
            "window": _UNLIMITED if attention.window is None else attention.window,
            "first_bias": first_bias(self.config, index),
        }

    def _convolution(self, layer: str, spec: ConvolutionSpec) -> dict[str, Any]:
        weight, bias = self._biased(f"{layer}.convolution")
        before = spec.width - 1 if self.config.causal else spec.width // 2
        parts = self.packer.retain(weight.T), self.packer.retain(bias)
        return {
            "qkv": self._linear(f"{layer}.convolution_input"),
            "output": self._linear(f"{layer}.convolution_output", reads_attention=True),
            "convolution": Convolution(*parts, spec.width, before),
        }

    def _delta_net(self, layer: str, spec: DeltaNetSpec) -> dict[str, Any]:
        names = (f"{layer}.delta_{part}" for part in ("input", "gate", "strength", "decay"))
        weights, biases = zip(*map(self._biased, names), strict=True)
        rates = -np.exp(self.weights[f"{layer}.delta_rate.weight"])
        return {
            "qkv": self.packer.matrix(
                np.concatenate(weights), np.concatenate(biases), f"{layer}.delta_input"
            ),
            "output": self._linear(f"{layer}.delta_output", reads_attention=True),
            "delta_net": DeltaNet(
                convolution=self.packer.retain(self.weights[f"{layer}.delta_convolution.weight"].T),
                rates=self.packer.retain(rates),
                tokens=spec.width,
                heads=delta_heads_of(spec),
                norm=self.norm(f"{layer}.delta_scale"),
            ),
        }

    def _linear(self, name: str, reads_attention: bool = False) -> Matrix:
        return self.packer.matrix(*self._biased(name), name, reads_attention=reads_attention)

    def _relative(self, layer: str, attention: AttentionSpec) -> RelativeTables:
        if not isinstance(attention.positions, Disentangled):
            return RelativeTables()
        parts = (
            relative_rows(self.config, self.weights, layer, part, self.exact)
            for part in ("key", "query")
        )
        return RelativeTables(
            *(None if rows is None else self.packer.attention_panels(rows) for rows in parts)
        )

    def _rotation_index(self, attention: AttentionSpec) -> int:
        pair = attention.positions, padded_size(attention)
        pairs: list[tuple[Scheme, int]] = [*distinct_rotations(self.config)]
        return pairs.index(pair) if pair in pairs else 0

    def _heads(self, layer: str, attention: AttentionSpec, order: Integers) -> Matrix:
        # Scores do not depend on the order of features if queries and keys have the same order.
        weight, bias = self._fused(layer, "qkv")
        if attention.gated:
            gate = self._fused(layer, "attention_gate")
            weight, bias = (
                np.concatenate(parts) for parts in zip((weight, bias), gate, strict=True)
            )
        rotated = attention.heads + attention.kv_heads
        features = np.arange(len(weight)).reshape(-1, attention.head_size)
        features[:rotated] = features[:rotated, order]
        rows = features.flatten()
        if (np.diff(rows) != 1).any():  # most models need no copy
            weight, bias = weight[rows], bias[rows]
        weight, bias = (pad_heads(part, attention) for part in (weight, bias))
        return self.packer.matrix(weight, bias, f"{layer}.qkv")

    def _output(self, layer: str, attention: AttentionSpec) -> Matrix:
        weight, bias = self._biased(f"{layer}.output")
        columns = pad_heads(weight.T, attention).T
        return self.packer.matrix(columns, bias, f"{layer}.output", reads_attention=True)

    def _network(self, layer: str, spec: FeedForwardSpec) -> dict[str, Matrix | Experts]:
        if spec.experts:
            return {"experts": self._experts(layer, spec)}
        parts = [self._padded_up(layer, name, spec) for name in ("gate", "up")[not spec.gated :]]
        weight, bias = (
            interleave_panels(*part) if spec.gated else part[0] for part in zip(*parts, strict=True)
        )
        up = self.packer.matrix(weight, bias, f"{layer}.up")
        return {"up": up, "down": self._linear(f"{layer}.down")}

    def _padded_up(self, layer: str, name: str, spec: FeedForwardSpec) -> tuple[Floats, Floats]:
        weight, bias = self._fused(layer, name)
        rows = padding_of(spec)
        if not rows:
            return weight, bias
        return np.pad(weight, ((0, rows), (0, 0))), np.pad(bias, (0, rows))

    def _experts(self, layer: str, spec: FeedForwardSpec) -> Experts:
        ups, downs = (
            np.split(self.weights[f"{layer}.experts_{part}.weight"], spec.experts)
            for part in ("up", "down")
        )
        packed = (
            self._expert(f"{layer}.experts.{index}", up, down.T)
            for index, (up, down) in enumerate(zip(ups, downs, strict=True))
        )
        structs = bytes((Expert * spec.experts)(*packed))
        return Experts(
            router=self.packer.retain(self.weights[f"{layer}.router.weight"]),
            each=self.packer.retain(np.frombuffer(structs, np.uint8)),
            bias=self.packer.retain(self.weights[f"{layer}.experts.bias"]),
            count=spec.experts,
            top=spec.top,
        )

    def _expert(self, name: str, up: Floats, down: Floats) -> Expert:
        return Expert(self._unbiased(up, f"{name}.up"), self._unbiased(down, f"{name}.down"))

    def _fused(self, layer: str, name: str) -> tuple[Floats, Floats]:
        """Concatenate the weights (out, in) and biases (out,) of the linear layers to fuse."""
        parts = [self._biased(f"{layer}.{part}") for part in FUSED_MATRICES[name]]
        weights, biases = zip(*parts, strict=True)
        return np.concatenate(weights), np.concatenate(biases)

    def _biased(self, name: str) -> tuple[Floats, Floats]:
        weight = self.weights[f"{name}.weight"]
        return weight, self.weights.get(f"{name}.bias", np.zeros(len(weight), np.float32))

    def _gate(self, layer: str, index: int) -> InputGate:
        if "gates.weight" not in self.weights:
            return InputGate()
        # The matrix (L * P, D) has a gate for each layer.
        matrices = np.array_split(self.weights["gates.weight"], self.config.num_layers)
        features = matrices[index] * np.float32(self.config.hidden_size**-0.5)
        return InputGate(
            features=self._unbiased(features, f"{layer}.gate_features"),
            down=self._unbiased(self.weights[f"{layer}.gate_down.weight"], f"{layer}.gate_down"),
            up=self._unbiased(self.weights[f"{layer}.gate_up.weight"], f"{layer}.gate_up"),
            features_norm=self.norm("gates_norm"),
            norms=PartNorms(output=self.norm(f"{layer}.gate_norm")),
            scale=self.weights[f"{layer}.scale"].item(),
        )

    def _unbiased(self, weight: Floats, name: str) -> Matrix:
        return self.packer.matrix(weight, np.zeros(len(weight), np.float32), name)

    def _value_norm(self, attention: AttentionSpec) -> Norm:
        if not attention.normed_values:
            return Norm()
        size = attention.head_size
        parts = np.ones(size, np.float32), np.zeros(size, np.float32)
        return Norm(*map(self.packer.retain, parts))

    def _norms(self, part: str) -> PartNorms:
        names = NORMS[self.config.arrangement]
        return PartNorms(**{place: self.norm(name.format(part)) for place, name in names.items()})

    def norm(self, name: str, order: Integers | None = None, padding: int = 0) -> Norm:
        """Pack a norm with its features in this order; a null norm if the checkpoint has none.

        padding: number of zeros at the end of the rows that it normalises.
        """
        weight = self.weights.get(f"{name}.weight")
        if weight is None:
            return Norm()
        bias = self.weights.get(f"{name}.bias", np.zeros_like(weight))
        parts = (part if order is None else part[order] for part in (weight, bias))
        padded = (self.packer.retain(np.pad(part, (0, padding))) for part in parts)
        return Norm(*padded, self.config.norm == "layer", padding)


def heads_of(attention: AttentionSpec) -> abi.Heads:
    """Return the numbers of a layer's heads."""
    return abi.Heads(attention.heads, attention.kv_heads, padded_size(attention), attention.gated)


def delta_heads_of(spec: DeltaNetSpec) -> DeltaHeads:
    """Return the numbers of the heads of a Gated DeltaNet."""
    return DeltaHeads(spec.heads, spec.key_heads, spec.size, spec.key_size)


def has_input_gates(weights: Weights) -> bool:
    """Whether each layer reads the embeddings, too."""
    return "gates_norm.weight" in weights


def padding_of(spec: FeedForwardSpec) -> int:
    """Return the number of zeros after the features of a network, for products of whole tiles."""
    return -spec.inner % _WHOLE
