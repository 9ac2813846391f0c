"""Attention to latents on the device of the states."""

from pathlib import Path

import numpy as np
import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoders_with_heads import StateFunctionEncoder
from embedwell_models.torch_backend.device_heads import DeviceStateFunctionEncoder
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.vectors import Floats
from embedwell_rare.latent_attention import LatentWeights
from embedwell_rare.torch_layers.latent_attention import TorchLatentAttention, with_attention
from tests.models.families.checkpoint import CPU, Case, write
from tests.models.meta import META, OnDevice, ToHost
from tests.models.torch_backend.encoders import torch_encoder

WIDTH = 32
HEADS, LATENTS, INNER = 2, 3, 6


def ones(*shape: int) -> Floats:
    return np.ones(shape, np.float32)


def latents(width: int, linear: TorchLinearFactory) -> TorchLatentAttention:
    norm = (ones(width), ones(width))
    up = (ones(INNER, width), ones(INNER))
    weights = LatentWeights(
        heads=HEADS,
        attention_norm=norm,
        scores=ones(HEADS * LATENTS, width),
        values=ones(width, HEADS * LATENTS),
        ffn_norm=norm,
        gate=up,
        up=up,
        down=(ones(width, INNER), ones(width)),
    )
    return TorchLatentAttention(weights, linear, linear.device)


def test_nothing_is_read_from_the_device_between_the_rows() -> None:
    attention = latents(WIDTH, TorchLinearFactory(META, torch.bfloat16))
    states = torch.empty(1200, WIDTH, dtype=torch.bfloat16, device=META)
    with OnDevice():  # type: ignore[no-untyped-call]
        attended = attention.attend(states)
    assert attended.shape == (1200, WIDTH) and attended.dtype == torch.float32


def batch_with_prompts() -> Batch:
    return Batch.of([np.arange(6, 6 + length) for length in (3, 1, 40)], [1, 0, 9])


def test_vectors_of_attention_are_those_of_states_that_the_host_pools(tmp_path: Path) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, CPU)
    attention = latents(64, TorchLinearFactory(CPU, torch.float32))
    device = DeviceStateFunctionEncoder(encoder, attention.attend, layers)
    host = StateFunctionEncoder(encoder, attention, layers)
    found, expected = (
        each.vectors(batch_with_prompts(), ["mean", "cls"]) for each in (device, host)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for num_layers in range(layers + 1):
        found, expected = (each.states(batch_with_prompts(), num_layers) for each in (device, host))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_host_receives_only_the_vectors(tmp_path: Path) -> None:
    write(Case("bert"), tmp_path)
    encoder, layers = torch_encoder(tmp_path, META)
    attention = latents(64, TorchLinearFactory(META, torch.float32))
    with ToHost() as received:
        with_attention(encoder, attention, layers).vectors(batch_with_prompts(), ["mean"])
    assert received.shapes == [(3, 64)]
