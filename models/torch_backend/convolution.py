"""Short convolutions over the last tokens of a text, in place of attention.

T tokens, D hidden size, K width of the window.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.sequence_layout import SequenceLayout
from models.torch_backend.linear import Linear


@dataclass(frozen=True)
class ShortConvolution:
    """A gated convolution of each feature with itself in the K - 1 tokens before.

    Of LFM2 (Amini et al. 2025, arXiv 2511.23404). input: (T, D) -> (T, 3 D), the gates before and
    after the convolution, and what is convolved. output: (T, D) -> (T, D). weight: (D, K), that of
    the token itself last. bias: (D,).
    """

    input: Linear
    output: Linear
    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor, layout: SequenceLayout, residual: Tensor | None = None) -> Tensor:
        """(T, D) -> (T, D)."""
        if layout.limits_keys:  # a token that is not attended to counts as zeros
            x = torch.where(layout.attended[:, None], x, 0.0)
        before, after, values = self.input(x).chunk(3, dim=1)
        mixed = after * self._convolve(before * values, layout.positions)
        return self.output(mixed, residual=residual)

    def _convolve(self, x: Tensor, positions: Tensor) -> Tensor:
        rows, size = len(x), self.weight.shape[1]
        padded = F.pad(x, (0, 0, size - 1, 0))
        total = x * self.weight[:, -1] + self.bias
        for back in range(1, size):
            first = size - 1 - back
            in_text = (positions >= back)[:, None]
            earlier = torch.where(in_text, padded[first : first + rows], 0.0)
            total = total + earlier * self.weight[:, first]
        return total
