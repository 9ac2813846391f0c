"""Tests of the attention to latents on a device."""

import numpy as np
import torch

from embedwell_models.encoder.latents import LatentWeights
from embedwell_models.torch_backend.latent_attention import TorchLatentAttention
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.vectors import Floats
from tests.models.meta import META, OnDevice

HEADS, LATENTS, WIDTH, INNER = 2, 3, 8, 6


def ones(*shape: int) -> Floats:
    return np.ones(shape, np.float32)


def test_nothing_is_read_from_the_device_between_the_rows() -> None:
    norm = (ones(WIDTH), ones(WIDTH))
    up = (ones(INNER, WIDTH), ones(INNER))
    weights = LatentWeights(
        heads=HEADS,
        attention_norm=norm,
        scores=ones(HEADS * LATENTS, WIDTH),
        values=ones(WIDTH, HEADS * LATENTS),
        ffn_norm=norm,
        gate=up,
        up=up,
        down=(ones(WIDTH, INNER), ones(WIDTH)),
    )
    attention = TorchLatentAttention(weights, TorchLinearFactory(META, torch.bfloat16), META)
    states = torch.empty(1200, WIDTH, dtype=torch.bfloat16, device=META)
    with OnDevice():  # type: ignore[no-untyped-call]
        attended = attention.attend(states)
    assert attended.shape == (1200, WIDTH) and attended.dtype == torch.float32
