"""Capabilities of the GPU under test."""

import pytest
import torch

from embedwell_models.torch_backend.device import has_bfloat16

since_ampere = pytest.mark.skipif(
    torch.cuda.is_available() and not has_bfloat16(torch.device("cuda")),
    reason="a GPU before Ampere has no bfloat16 and no FlashAttention",
)
