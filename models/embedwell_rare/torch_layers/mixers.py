"""Mixers of tokens in place of attention, over packed sequences.

Short convolutions, and Gated DeltaNet, a linear attention (Yang et al. 2024, arXiv 2412.06464).

T tokens, D hidden size, K width of a convolution's window, N texts of one padded length P, H heads
of values, Dk and Dv features of a key and a value, C tokens of a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.config.layer_spec import ConvolutionSpec, DeltaNetSpec
from embedwell_models.torch_backend.layer_builder import LayerBuilder
from embedwell_models.torch_backend.linear import Linear, OutputLinear
from embedwell_models.torch_backend.norm import Norm, RMSNorm, Sum
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

_CHUNK = 64  # tokens whose products are computed at once
_EPS = 1e-6  # added to the square of the length of a query or key


@dataclass(frozen=True)
class ShortConvolution:
    """Gated depthwise convolution over a token and the K - 1 tokens before or around it.

    LFM2 (Amini et al. 2025, arXiv 2511.23404) and LFM2.5. input: (T, D) -> (T, 3 D), the gates
    before and after the convolution, and its input. output: (T, D) -> (T, D). weight: (D, K), in
    the order of the tokens. bias: (D,). causal: whether the token is the last of the window;
    otherwise it is in the middle.
    """

    input: Linear
    output: OutputLinear
    weight: Tensor
    bias: Tensor
    causal: bool

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Sum:
        """Apply the convolution: (T, D) -> (T, D)."""
        # A token that is not attended to counts as zeros, except in the code of LFM2.5.
        if layout.limits_keys and self.causal:
            x = torch.where(layout.attended[:, None], x, 0.0)
        before, after, values = self.input(x).chunk(3, dim=1)
        size = self.weight.shape[1]
        first = 1 - size if self.causal else (1 - size) // 2
        convolved = convolve(before * values, self.weight, self.bias, layout.positions, first)
        return self.output(after * convolved, residual)


def convolve(x: Tensor, weight: Tensor, bias: Tensor, positions: Tensor, first: int) -> Tensor:
    """Compute a depthwise convolution within each text: (T, D) -> (T, D).

    weight: (D, K), in the order of the tokens. bias: (D,). positions: (T,) of the tokens in their
    texts. first: offset of the window's first token.
    """
    total = bias.expand_as(x)
    for offset, column in enumerate(weight.T, start=first):
        # The row at this offset, or zeros if it is in another text or past the end.
        in_text = positions.roll(-offset) == positions + offset
        total = total + torch.where(in_text[:, None], x.roll(-offset, 0), 0.0) * column
    return total


@dataclass(frozen=True)
class DeltaNet:
    """Linear attention whose memory decays, and replaces the value of a key by a share.

    input: (T, D) -> (T, features), the queries, keys and values. convolution: (features, K), over a
    token and the K - 1 tokens before it. gate: (T, D) -> (T, H * Dv). strength, decay: (T, D) ->
    (T, H). rate: (H,) float32, below zero. norm: of the results of a head, in float32. output:
    (T, H * Dv) -> (T, D).
    """

    spec: DeltaNetSpec
    input: Linear
    convolution: Tensor
    gate: Linear
    strength: Linear
    decay: Linear
    rate: Tensor
    norm: Norm
    output: OutputLinear

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Sum:
        """Apply it to packed rows: (T, D) -> (T, D)."""
        if layout.limits_keys:  # a token that is not attended to counts as zeros
            x = torch.where(layout.attended[:, None], x, 0.0)
        first, bias = 1 - self.spec.width, x.new_zeros(())
        features = convolve(self.input(x), self.convolution, bias, layout.positions, first)
        results = self._recall(x, F.silu(features), layout)
        gated = self.norm(results).flatten(1) * self.gate(x)
        return self.output(gated.to(x.dtype), residual)

    def _recall(self, x: Tensor, features: Tensor, layout: SequenceLayout) -> Tensor:
        # What each token reads from the memory of its text: (T, H, Dv).
        spec = self.spec
        query, key, value = torch.split(features.float(), [*spec.sizes], dim=1)
        parts = (
            self._unit(query) * spec.key_size**-0.5,
            self._unit(key),
            value.view(len(x), spec.heads, spec.size),
            self.decay(x).float(),
            self.strength(x).float(),
        )
        output = value.new_zeros(len(x), spec.heads, spec.size)
        for group in layout.groups:  # no token reads the padding, which is after the last one
            rows = self._by_text([*map(group.pad, parts)])
            flat = rows.transpose(1, 2).flatten(0, 1)
            output.index_copy_(0, group.targets, flat.index_select(0, group.slots))
        return output

    def _by_text(self, parts: Sequence[Tensor]) -> Tensor:
        # On a CPU, products of several texts may sum in another order than those of one, and torch
        # has two exponential functions: for whole vectors and for the rest.
        if parts[0].device.type != "cpu":
            return self._apply_rule(*parts)
        texts = zip(*(torch.split(part, 1) for part in parts), strict=True)
        return torch.cat([self._apply_rule(*text) for text in texts])

    def _apply_rule(
        self, query: Tensor, key: Tensor, value: Tensor, decay: Tensor, strength: Tensor
    ) -> Tensor:
        decays = self.rate[:, None] * F.softplus(decay)
        return gated_delta_rule(query, key, value, decays, torch.sigmoid(strength))

    def _unit(self, x: Tensor) -> Tensor:
        # Each head's queries or keys with length 1: (T, heads * Dk) -> (T, H, Dk).
        size = self.spec.key_size
        heads = x.reshape(len(x), -1, size)
        unit: Tensor = F.rms_norm(heads, (size,), eps=_EPS / size) * size**-0.5
        return unit.repeat_interleave(self.spec.heads // self.spec.key_heads, dim=1)


def gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, decays: Tensor, strengths: Tensor
) -> Tensor:
    """Read what the queries find in a memory, chunk by chunk: (N, H, P, Dv), in float32.

    For each token, the memory S (Dk, Dv) becomes e^decay S, then S + k (strength (v - S^T k))^T,
    and the result is S^T q. Within a chunk, the values that are added solve a triangular system.

    query, key: (N, H, P, Dk). value: (N, H, P, Dv). decays, strengths: (N, H, P).
    """
    length, size = query.shape[2], value.shape[3]
    query, key, value, decays, strengths = (
        _chunks(part) for part in (query, key, value, decays, strengths)
    )
    passed = decays.cumsum(-1)
    later = torch.ones(passed.shape[-1:] * 2, dtype=torch.bool, device=query.device).triu(1)
    between = (passed[..., :, None] - passed[..., None, :]).masked_fill(later, -torch.inf).exp()
    since_start, until_end = passed.exp()[..., None], (passed[..., -1:] - passed).exp()[..., None]
    strong = key * strengths[..., None]
    wanted = torch.cat([value * strengths[..., None], strong * since_start], dim=-1)
    system = (strong @ key.mT) * between
    solved = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    scores, query, key = (query @ key.mT) * between, query * since_start, key * until_end
    memory, results = value.new_zeros(*key.shape[:2], key.shape[-1], size), list[Tensor]()
    for chunk in range(key.shape[2]):
        now = (slice(None), slice(None), chunk)
        added = solved[now][..., :size] - solved[now][..., size:] @ memory
        results.append(query[now] @ memory + scores[now] @ added)
        memory = memory * since_start[now][..., -1:, :] + key[now].mT @ added
    return torch.cat(results, dim=2)[:, :, :length]


def _chunks(x: Tensor) -> Tensor:
    # (N, H, P, ...) -> (N, H, chunks, C, ...), with zeros at the end.
    length = x.shape[2]
    size = min(_CHUNK, length)
    padding = x.new_zeros(*x.shape[:2], -length % size, *x.shape[3:])
    return torch.cat([x, padding], dim=2).reshape(*x.shape[:2], -1, size, *x.shape[3:])


def short_convolution(build: LayerBuilder, name: str, _: ConvolutionSpec) -> ShortConvolution:
    """Build the convolution of a layer. name: prefix of the names of its tensors."""
    name = f"{name}.convolution"
    parts = {part: build.biased(f"{name}{part}") for part in ("_input", "", "_output")}
    weight, bias = (each.to(build.device, build.linear_factory.dtype) for each in parts[""])
    return ShortConvolution(
        input=build.linear_factory(*parts["_input"], name=f"{name}_input"),
        output=build.last(build.linear_factory(*parts["_output"], name=f"{name}_output")),
        weight=weight,
        bias=bias,
        causal=build.config.causal,
    )


def delta_net(build: LayerBuilder, name: str, spec: DeltaNetSpec) -> DeltaNet:
    """Build the linear attention of a layer. name: prefix of the names of its tensors."""
    name = f"{name}.delta"

    def linear(part: str, activation: str = "none", reads: str = "input") -> Linear:
        # The name is that of the input, which the kernels multiply once for all that read it.
        parts = build.biased(f"{name}_{part}")
        return build.linear_factory(*parts, activation, name=f"{name}_{reads}")

    rate, scale = (
        build.weights[f"{name}_{part}.weight"].to(build.device) for part in ("rate", "scale")
    )
    convolution = build.weights[f"{name}_convolution.weight"]
    return DeltaNet(
        spec=spec,
        input=linear("input"),
        convolution=convolution.to(build.device, build.linear_factory.dtype),
        gate=linear("gate", "silu"),
        strength=linear("strength"),
        decay=linear("decay"),
        rate=-rate.exp(),
        norm=RMSNorm(scale, build.config.norm_eps),
        output=build.last(linear("output", reads="output")),
    )
