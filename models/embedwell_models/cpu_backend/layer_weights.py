"""Weights of an encoder's layers, packed for the kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec, LayerSpec
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.abi import InputGate, Layer, Matrix, Norm, PartNorms
from embedwell_models.cpu_backend.library import kernel
from embedwell_models.cpu_backend.prepack import Packing, WeightPacker, interleave_panels
from embedwell_models.cpu_backend.rope_cache import distinct_rotations, paired_order
from embedwell_models.encoder.tensors import Tensors, to_tensors
from embedwell_models.positions.schemes import Scheme
from embedwell_models.torch_backend.input_gate import gate_features
from embedwell_models.torch_backend.layer_builder import fused_weight_and_bias

NORMS: Mapping[str, Mapping[str, str]] = {  # arrangement -> the norms of a layer's part
    "post": {"sum": "{}_norm"},
    "pre": {"input": "{}_norm"},
    "sandwich": {"input": "{}_norm", "output": "{}_output_norm"},
}
_UNLIMITED = 1 << 32  # a window that is wider than any text


class LayerWeights:
    """Packed layers of a model for an instruction set and a precision, with their memory.

    Raises AttributeError if the instruction set lacks the precision.
    """

    def __init__(self, config: EncoderConfig, arrays: Weights, isa: str, packing: Packing) -> None:
        weights = to_tensors(arrays)
        self.run = kernel(isa, f"encode_{packing.dtype}")
        build = _Builder(config, weights, WeightPacker(packing))
        self.layers = (Layer * config.num_layers)(
            *(build.layer(*each) for each in enumerate(config.layers))
        )
        self.gate_size = len(weights.get("gates_norm.weight", ()))
        self.embedding_norm, self.final_norm = build.norm("norm"), build.norm("final_norm")
        self._packer = build.packer  # owns the memory; the unpacked weights are freed


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Tensors
    packer: WeightPacker

    def layer(self, index: int, spec: LayerSpec) -> Layer:
        name, attention = f"layers.{spec.weights}", spec.mixer
        assert isinstance(attention, AttentionSpec)  # see kernels_support
        order = paired_order(attention.positions, attention.head_size)
        return Layer(
            qkv=self._heads(name, attention, order),
            output=self._matrix(name, "output"),
            up=self._gated(name) if spec.feed_forward.gated else self._matrix(name, "up"),
            down=self._matrix(name, "down"),
            heads=abi.Heads(attention.heads, attention.kv_heads, attention.head_size),
            query_norm=self.norm(f"{name}.query_norm", order),
            key_norm=self.norm(f"{name}.key_norm", order),
            value_norm=self._value_norm(attention),
            attention_norms=self._norms(f"{name}.attention"),
            ffn_norms=self._norms(f"{name}.ffn"),
            gate=self._gate(name, index),
            rotation_index=self._rotation_index(attention),
            window=_UNLIMITED if attention.window is None else attention.window,
        )

    def _rotation_index(self, attention: AttentionSpec) -> int:
        pair = attention.positions, attention.head_size
        pairs: list[tuple[Scheme, int]] = [*distinct_rotations(self.config)]
        return pairs.index(pair) if pair in pairs else 0

    def _heads(self, layer: str, attention: AttentionSpec, order: Tensor) -> Matrix:
        # Scores do not depend on the order of features if queries and keys have the same order.
        weight, bias = fused_weight_and_bias(self.weights, layer, "qkv")
        rotated = attention.heads + attention.kv_heads
        rows = torch.arange(len(weight)).view(-1, attention.head_size)
        rows[:rotated] = rows[:rotated, order]
        rows = rows.flatten()
        return self.packer.matrix(weight[rows], bias[rows], f"{layer}.qkv")

    def _gated(self, layer: str) -> Matrix:
        gate, up = (fused_weight_and_bias(self.weights, layer, part) for part in ("gate", "up"))
        weight, bias = (interleave_panels(*parts) for parts in zip(gate, up, strict=True))
        return self.packer.matrix(weight, bias, f"{layer}.up")

    def _matrix(self, layer: str, name: str) -> Matrix:
        return self.packer.matrix(
            *fused_weight_and_bias(self.weights, layer, name), f"{layer}.{name}"
        )

    def _gate(self, layer: str, index: int) -> InputGate:
        if "gates.weight" not in self.weights:
            return InputGate()
        features = gate_features(self.config, self.weights, index)
        return InputGate(
            features=self._unbiased(features, f"{layer}.gate_features"),
            down=self._unbiased(self.weights[f"{layer}.gate_down.weight"], f"{layer}.gate_down"),
            up=self._unbiased(self.weights[f"{layer}.gate_up.weight"], f"{layer}.gate_up"),
            features_norm=self.norm("gates_norm"),
            norms=PartNorms(output=self.norm(f"{layer}.gate_norm")),
            scale=self.weights[f"{layer}.scale"].item(),
        )

    def _unbiased(self, weight: Tensor, name: str) -> Matrix:
        return self.packer.matrix(weight, weight.new_zeros(len(weight)), name)

    def _value_norm(self, attention: AttentionSpec) -> Norm:
        if not attention.normed_values:
            return Norm()
        size = attention.head_size
        return Norm(*map(self.packer.retain, (torch.ones(size), torch.zeros(size))))

    def _norms(self, part: str) -> PartNorms:
        names = NORMS[self.config.arrangement]
        return PartNorms(**{place: self.norm(name.format(part)) for place, name in names.items()})

    def norm(self, name: str, order: Tensor | None = None) -> Norm:
        """Pack a norm with its features in this order; a null norm if the checkpoint has none."""
        weight = self.weights.get(f"{name}.weight")
        if weight is None:
            return Norm()
        bias = self.weights.get(f"{name}.bias", torch.zeros_like(weight))
        parts = (part if order is None else part[order] for part in (weight, bias))
        return Norm(*map(self.packer.retain, parts), self.config.norm == "layer")
