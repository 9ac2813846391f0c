"""Construction of an encoder's layers from the tensors of a checkpoint."""

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import (
    FUSED_MATRICES,
    AttentionSpec,
    FeedForwardSpec,
    LayerSpec,
    Mixer,
)
from embedwell_models.encoder.batch_shape import BatchShape, PassPlan, rounded_rows
from embedwell_models.torch_backend.attention import (
    AttentionOptions,
    padded_attention,
)
from embedwell_models.torch_backend.layers import (
    LAYER_CLASSES,
    AdaptedFeedForward,
    Attention,
    FeedForward,
    Layer,
    MixtureOfExperts,
    TokenMixer,
    input_gates,
)
from embedwell_models.torch_backend.linear import Linear, LinearFactory, OutputLinear
from embedwell_models.torch_backend.norm import (
    AllHeadsNorm,
    HeadNorms,
    Norm,
    RMSNorm,
    Sum,
    build_norm,
    identity,
)
from embedwell_models.torch_backend.operators import (
    EfficientAttention,
    FlashAttention,
    Operators,
    PackedAttention,
    operators_for,
)
from embedwell_models.torch_backend.position_builder import layer_position_hooks
from embedwell_models.torch_backend.rotary import Rotary
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.tensors import Tensors, to_tensors


class TorchLayers:
    """Layers of an encoder, in the precision of their linear layers."""

    def __init__(
        self,
        config: EncoderConfig,
        arrays: Weights | Tensors,
        linear_factory: LinearFactory,
        device: torch.device,
        operators: Operators | None = None,
    ) -> None:
        """operators: by default those for the device."""
        self.dtype, weights = linear_factory.dtype, to_tensors(arrays, device)
        self._device, self._width = device, config.hidden_size
        operators = operators or operators_for(device)
        build = LayerBuilder(config, weights, linear_factory, device, operators)
        self._layers = [build.layer(layer) for layer in config.layers]
        self._gates = input_gates(config, weights, linear_factory, device)
        mixers = [layer.attention for layer in self._layers]
        self._attentions = [mixer for mixer in mixers if isinstance(mixer, Attention)]
        self._final, self._sum_and_norm = build.norm("final_norm"), operators.sum_and_norm
        self._kernels = operators.kernels
        self._mix: Sequence[float] = ()

    def __len__(self) -> int:
        return len(self._layers)

    def mix(self, weights: Sequence[float]) -> None:
        """Return a mean of the states after the last layers from now on, where all are applied.

        weights: of these states, the last one's at the end.
        """
        self._mix = weights

    def plan(self, shapes: Sequence[BatchShape]) -> PassPlan:
        """Describe the passes on a GPU; select the shapes whose batches launch the same kernels."""
        names: dict[type, str] = {
            FlashAttention: "flash",
            PackedAttention: "triton",
            EfficientAttention: "efficient",
        }
        attention = Counter(names.get(type(each.attend), "padded") for each in self._attentions)
        why, recorded = self._why_no_graphs(attention), list[BatchShape]()
        if not why:
            longest = min(each.options.positions.longest_recordable for each in self._attentions)
            recorded = [shape for shape in shapes if shape.max_length <= longest]
            why = "" if recorded else "rotations depend on the length of a text"
        return PassPlan(dict(attention), self._kernels, recorded, why)

    def _why_no_graphs(self, attention: Mapping[str, int]) -> str:
        if "padded" in attention:
            return "attention in padded blocks"
        if not attention or len(self._attentions) < len(self):
            return "layers without attention"
        experts = any(isinstance(layer.ffn, MixtureOfExperts) for layer in self._layers)
        return "the host chooses experts" if experts else ""

    def prepare_layout(self, layout: SequenceLayout) -> None:
        """Compute the layout's values for attention while the device may compute another batch."""
        if any(each.attend is padded_attention for each in self._attentions):
            _ = layout.groups

    def __call__(
        self,
        hidden: Tensor,
        layout: SequenceLayout,
        num_layers: int,
        additions: Sequence[Tensor] = (),
    ) -> Tensor:
        """Apply the first `num_layers` layers; after all, also the final norm: (T, D) -> (T, D).

        additions: (T, D) each, added to the states after the first layers.
        """
        states, mixed = Sum(hidden), list[Tensor]()
        after_each = self.after_each(hidden, [layout] * num_layers, additions)
        for remaining, after in zip(range(len(self), 0, -1), after_each, strict=False):
            if remaining < len(self._mix):
                mixed.append(states.evaluate())
            states = after
        if num_layers < len(self):
            return states.evaluate()
        last = self._sum_and_norm(states, self._final, keeps_sum=False)[1]
        return self._mean([*mixed, last]) if self._mix else last

    def _mean(self, states: Sequence[Tensor]) -> Tensor:
        weighted = [w * each.float() for w, each in zip(self._mix, states, strict=True)]
        return sum(weighted[1:], weighted[0]) / sum(self._mix)

    def after_each(
        self,
        hidden: Tensor,
        layouts: Sequence[SequenceLayout],
        additions: Sequence[Tensor] = (),
    ) -> Iterator[Sum]:
        """Yield the states after each of the first layers, without the final norm; see `__call__`.

        layouts: of each layer, all with the same rows.
        """
        states = Sum(hidden)
        for index, (layer, layout) in enumerate(zip(self._layers, layouts, strict=False)):
            states = layer(states, layout)
            if self._gates:
                states = Sum(self._gates[index](states.evaluate(), hidden))
            if index < len(additions):
                states = Sum(states.evaluate() + additions[index])
            yield states

    @torch.inference_mode()
    def warm(self) -> None:
        """Let oneDNN build its kernels for the most frequent row counts; all layers share them."""
        sizes = sorted({rounded_rows(tokens) for tokens in range(1, 513)})
        first = zip(self._attentions[:1], self._layers[:1], strict=False)
        for (attention, layer), rows in product(first, sizes):
            x = torch.zeros(rows, self._width, dtype=self.dtype, device=self._device)
            heads = attention.heads
            mixed = attention.qkv(x).view(rows, sum(heads), -1)
            attention.output(mixed[:, : heads[0]].flatten(1), residual=x)
            layer.ffn(x, residual=x)


@dataclass(frozen=True)
class LayerBuilder:
    """Builder of the layers of an encoder.

    built: the linear layers so far, by name.
    """

    config: EncoderConfig
    weights: Tensors
    linear_factory: LinearFactory
    device: torch.device
    operators: Operators
    built: dict[str, Linear] = field(default_factory=dict)

    def layer(self, spec: LayerSpec) -> Layer:
        name = f"layers.{spec.weights}"
        return LAYER_CLASSES[self.config.arrangement](
            attention=self.mixer(name, spec.mixer),
            attention_norm=self.norm(f"{name}.attention_norm"),
            ffn=self.ffn(name, spec.feed_forward),
            ffn_norm=self.norm(f"{name}.ffn_norm"),
            attention_output_norm=self.norm(f"{name}.attention_output_norm"),
            ffn_output_norm=self.norm(f"{name}.ffn_output_norm"),
            sum_and_norm=self.operators.sum_and_norm,
        )

    def ffn(
        self, name: str, spec: FeedForwardSpec
    ) -> FeedForward | AdaptedFeedForward | MixtureOfExperts:
        if not spec.experts:
            down = self.last(self.linear(name, "down"))
            network = FeedForward(self.up(name, spec), down, self.inner_norm(name, spec))
            return self.adapted(name, network, spec.activation) if spec.adapter else network
        ups, downs = (
            self.weights[f"{name}.experts_{part}.weight"].chunk(spec.experts)
            for part in ("up", "down")
        )
        return MixtureOfExperts(
            router=self.unbiased(f"{name}.router", self.weights[f"{name}.router.weight"]),
            experts=[
                FeedForward(
                    self.unbiased(f"{name}.experts.{index}.up", up, spec.activation),
                    self.last(self.unbiased(f"{name}.experts.{index}.down", down.T.contiguous())),
                )
                for index, (up, down) in enumerate(zip(ups, downs, strict=True))
            ],
            bias=self.weights[f"{name}.experts.bias"].to(self.device, self.linear_factory.dtype),
            top=spec.top,
        )

    def adapted(self, name: str, network: FeedForward, activation: str) -> AdaptedFeedForward:
        up = self.linear(name, "adapter_up", activation)
        down = self.last(self.linear(name, "adapter_down"))
        return AdaptedFeedForward(network, self.norm(f"{name}.ffn_norm"), FeedForward(up, down))

    def inner_norm(self, layer: str, spec: FeedForwardSpec) -> Norm:
        config = replace(self.config, norm_eps=spec.inner_norm_eps)
        name, dtype = f"{layer}.inner_norm", self.linear_factory.dtype
        return build_norm(config, self.weights, name, self.device, dtype)

    def unbiased(self, name: str, weight: Tensor, activation: str = "none") -> Linear:
        return self.linear_factory(weight, weight.new_zeros(len(weight)), activation, name=name)

    def mixer(self, name: str, spec: Mixer | None) -> TokenMixer:
        if spec is None:
            raise ValueError(f"layers of {self.config.family} have no mixer that torch computes")
        if isinstance(spec, AttentionSpec) and not spec.builder:
            return self.attention(name, spec)
        build: Callable[[LayerBuilder, str, Mixer], TokenMixer]
        build = pkgutil.resolve_name(spec.builder)
        return build(self, name, spec)

    def biased(self, name: str) -> tuple[Tensor, Tensor]:
        weight = self.weights[f"{name}.weight"]
        return weight, self.weights.get(f"{name}.bias", weight.new_zeros(len(weight)))

    def attention(self, name: str, spec: AttentionSpec) -> Attention:
        options = self.options(name, spec)
        query_norm, key_norm = (
            self.head_norm(f"{name}.{part}_norm", spec) for part in ("query", "key")
        )
        fused = self.operators.norms_heads and isinstance(options.positions, Rotary)
        return Attention(
            qkv=self.linear(name, "qkv"),
            output=self.last(self.linear(name, "output")),
            query_norm=query_norm,
            key_norm=key_norm,
            head_norms=HeadNorms.of(query_norm, key_norm, spec.heads) if fused else None,
            value_norm=self.value_norm(spec),
            heads=(spec.heads, spec.kv_heads, spec.kv_heads),
            options=options,
            attend=self.operators.attention(options, spec.head_size, self.linear_factory.dtype),
            mixed_norm=self.norm(f"{name}.mixed_norm"),
            first_qkv=self.linear(name, "first_qkv") if spec.global_first else None,
            gate=self.attention_gate(name) if spec.gated else None,
        )

    def attention_gate(self, layer: str) -> Linear:
        parts = fused_weight_and_bias(self.weights, layer, "attention_gate")
        return self.linear_factory(*parts, name=f"{layer}.qkv")  # which has the same input

    def options(self, name: str, spec: AttentionSpec) -> AttentionOptions:
        like = torch.empty(0, dtype=self.linear_factory.dtype, device=self.device)
        return AttentionOptions(
            positions=layer_position_hooks(
                *(self.config, self.weights, name, spec, like),
                rotate_pairs=self.operators.rotate_pairs,
            ),
            scale=spec.scale,
            causal=self.config.causal,
            window=spec.window,
            window_after=spec.window_after,
            softcap=spec.softcap,
            global_first=spec.global_first,
        )

    def norm(self, name: str) -> Norm:
        return build_norm(self.config, self.weights, name, self.device, self.linear_factory.dtype)

    def head_norm(self, name: str, spec: AttentionSpec) -> Norm:
        norm, weight = self.norm(name), self.weights.get(f"{name}.weight")
        all_heads = weight is not None and len(weight) != spec.head_size
        return AllHeadsNorm(norm) if all_heads else norm

    def value_norm(self, spec: AttentionSpec) -> Norm:
        if not spec.normed_values:
            return identity
        ones = torch.ones(spec.head_size, dtype=self.linear_factory.dtype, device=self.device)
        return RMSNorm(ones, self.config.norm_eps)

    def up(self, layer: str, spec: FeedForwardSpec) -> Linear:
        name, activation = f"{layer}.up", spec.activation
        if not spec.gated:
            return self.linear(layer, "up", activation)
        if name not in self.built:
            gate, up = (fused_weight_and_bias(self.weights, layer, part) for part in ("gate", "up"))
            self.built[name] = self.linear_factory.gated(gate, up, activation, name=name)
        return self.built[name]

    def last(self, linear: Linear) -> OutputLinear:
        return OutputLinear(linear, self.linear_factory.fuses_residual)

    def linear(self, layer: str, part: str, activation: str = "none") -> Linear:
        # Layers that share weights also share the linear layer.
        name = f"{layer}.{part}"
        if name not in self.built:
            parts = fused_weight_and_bias(self.weights, layer, part)
            self.built[name] = self.linear_factory(*parts, activation, name=name)
        return self.built[name]


def fused_weight_and_bias(weights: Tensors, layer: str, name: str) -> tuple[Tensor, Tensor]:
    """Concatenate the weights (out, in) and biases (out,) of the linear layers to fuse."""
    parts = [f"{layer}.{part}" for part in FUSED_MATRICES[name]]
    rows = [weights[f"{part}.weight"] for part in parts]
    biases = [
        weights.get(f"{part}.bias", row.new_zeros(len(row)))
        for part, row in zip(parts, rows, strict=True)
    ]
    return torch.cat(rows), torch.cat(biases)
