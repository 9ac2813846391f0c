"""Attention over packed sequences in one Triton kernel on GPUs, for any scores and precision."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from embedwell_models.torch_backend.attention import AttentionOptions
from embedwell_models.torch_backend.relative_scores import Visibility
from embedwell_models.torch_backend.sequence_layout import SequenceLayout

Kernel = Callable[..., Tensor]
"""`attend` in `triton_kernels.attention`, or a function with the same arguments and result."""


@dataclass(frozen=True)
class PackedAttention:
    """Attention with relative scores, soft caps and windows, without padding and mask."""

    kernel: Kernel

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        layout: SequenceLayout,
        options: AttentionOptions,
    ) -> Tensor:
        """Compute attention within each sequence: (T, H, Dh) -> (T, H * Dh)."""
        counts = layout.key_counts if layout.limits_keys else None
        mixed = self.kernel(
            *(query, key, value, layout.cu_seqlens, layout.shape.max_length),
            *(options.scale, options.softcap),
            Visibility(options.causal, options.window, counts),
            options.positions.packed_scores(query, key),
        )
        return mixed.flatten(1)
