"""Short convolutions over the tokens of a text around each, in place of attention.

T tokens, D hidden size, K width of the window.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from embedwell_models.encoder.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.linear import Linear


@dataclass(frozen=True)
class ShortConvolution:
    """A gated convolution of each feature with itself in the K - 1 tokens before, or around.

    Of LFM2 (Amini et al. 2025, arXiv 2511.23404) and LFM2.5. input: (T, D) -> (T, 3 D), the gates
    before and after the convolution, and what is convolved. output: (T, D) -> (T, D). weight:
    (D, K), of tokens in their order. bias: (D,). causal: whether the token itself is the last one
    of the window, and not the one in the middle.
    """

    input: Linear
    output: Linear
    weight: Tensor
    bias: Tensor
    causal: bool

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        # A token that is not attended to counts as zeros, but not in the code of LFM2.5.
        if layout.limits_keys and self.causal:
            x = torch.where(layout.attended[:, None], x, 0.0)
        before, after, values = self.input(x).chunk(3, dim=1)
        mixed = after * self._convolve(before * values, layout.positions)
        return self.output(mixed, residual=residual)

    def _convolve(self, x: Tensor, positions: Tensor) -> Tensor:
        size = self.weight.shape[1]
        first = 1 - size if self.causal else (1 - size) // 2
        total = self.bias.expand_as(x)
        for column, weight in enumerate(self.weight.T):
            offset = first + column
            # The row so many after each, if it is of the same text: rolled past the end, it is not.
            in_text = positions.roll(-offset) == positions + offset
            total = total + torch.where(in_text[:, None], x.roll(-offset, 0), 0.0) * weight
        return total
