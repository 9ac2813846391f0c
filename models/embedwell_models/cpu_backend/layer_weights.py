"""Weights of an encoder's layers, packed for the kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig, Heads
from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.abi import InputGate, Layer, Matrix, Norm, PartNorms
from embedwell_models.cpu_backend.library import kernel
from embedwell_models.cpu_backend.prepack import WeightPacker, interleave_panels
from embedwell_models.cpu_backend.rope_cache import paired_order
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

    def __init__(
        self,
        config: EncoderConfig,
        weights: Weights,
        dtype: str,
        isa: str,
        input_magnitudes: Mapping[str, Tensor] | None = None,
    ) -> None:
        """input_magnitudes: for int8, by layer name: see ObserverLinearFactory."""
        self.run = kernel(isa, f"encode_{dtype}")
        build = _Builder(config, weights, WeightPacker(dtype, input_magnitudes))
        self.layers = (Layer * config.num_layers)(*map(build.layer, range(config.num_layers)))
        self.gate_size = len(weights.get("gates_norm.weight", ()))
        self.embedding_norm, self.final_norm = build.norm("norm"), build.norm("final_norm")
        self._packer = build.packer  # owns the memory; the unpacked weights are freed


@dataclass(frozen=True)
class _Builder:
    config: EncoderConfig
    weights: Weights
    packer: WeightPacker

    def layer(self, index: int) -> Layer:
        config, name = self.config, f"layers.{index}"
        scheme, window, heads = config.scheme(index), config.windows[index], config.heads(index)
        order = paired_order(scheme, heads.size)
        return Layer(
            qkv=self._heads(name, heads, order),
            output=self._matrix(name, "output"),
            up=self._gated(name) if config.gated else self._matrix(name, "up"),
            down=self._matrix(name, "down"),
            heads=abi.Heads(heads.count, heads.kv_count, heads.size),
            query_norm=self.norm(f"{name}.query_norm", order),
            key_norm=self.norm(f"{name}.key_norm", order),
            value_norm=self._value_norm(heads),
            attention_norms=self._norms(f"{name}.attention"),
            ffn_norms=self._norms(f"{name}.ffn"),
            gate=self._gate(name, index),
            rotation_index=scheme is config.local_positions,
            window=_UNLIMITED if window is None else window,
        )

    def _heads(self, layer: str, heads: Heads, order: Tensor) -> Matrix:
        # Scores do not depend on the order of features if queries and keys have the same order.
        weight, bias = fused_weight_and_bias(self.weights, layer, "qkv")
        rotated = heads.count + heads.kv_count
        rows = torch.arange(len(weight)).view(-1, heads.size)
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

    def _value_norm(self, heads: Heads) -> Norm:
        if not self.config.normed_values:
            return Norm()
        return Norm(*map(self.packer.retain, (torch.ones(heads.size), torch.zeros(heads.size))))

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
