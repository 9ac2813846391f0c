"""Tests of the attention to latents on a device."""

import torch

from embedwell_models.torch_backend.latent_attention import LatentAttention
from embedwell_models.torch_backend.latents import LatentWeights
from embedwell_models.torch_backend.linear import TorchLinearFactory
from tests.models.meta import META, OnDevice

HEADS, LATENTS, WIDTH, INNER = 2, 3, 8, 6


def test_nothing_is_read_from_the_device_between_the_rows() -> None:
    norm = (torch.ones(WIDTH), torch.zeros(WIDTH))
    up = (torch.ones(INNER, WIDTH), torch.zeros(INNER))
    weights = LatentWeights(
        heads=HEADS,
        attention_norm=norm,
        scores=torch.ones(HEADS * LATENTS, WIDTH),
        values=torch.ones(WIDTH, HEADS * LATENTS),
        ffn_norm=norm,
        gate=up,
        up=up,
        down=(torch.ones(WIDTH, INNER), torch.zeros(WIDTH)),
    )
    attention = LatentAttention(weights, TorchLinearFactory(META, torch.bfloat16), META)
    states = torch.empty(1200, WIDTH, dtype=torch.bfloat16, device=META)
    with OnDevice():  # type: ignore[no-untyped-call]
        attended = attention.attend(states)
    assert attended.shape == (1200, WIDTH) and attended.dtype == torch.float32
