"""Capabilities of the GPU under test."""

import pytest
import torch

from embedwell_models.torch_backend.device import is_ampere_or_newer

since_ampere = pytest.mark.skipif(
    torch.cuda.is_available() and not is_ampere_or_newer(torch.device("cuda")),
    reason="a GPU before Ampere has no bfloat16 and no FlashAttention",
)
