"""Short convolutions over neighbouring tokens, in place of attention.

T tokens, D hidden size, K width of the window.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.torch_backend.linear import Linear, OutputLinear
from embedwell_models.torch_backend.norm import Sum
from embedwell_models.torch_backend.sequence_layout import SequenceLayout


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
