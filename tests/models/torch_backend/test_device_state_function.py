"""Tests of a classifier's layers before its pooling, on a device."""

from pathlib import Path

import numpy as np
import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.loading.backends import RowExactLinear
from embedwell_models.loading.state_heads import with_own_states
from embedwell_models.model_description import ModelDescription
from tests.models.cross_encoder import write_cross_encoder
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, ToHost
from tests.models.torch_backend.encoders import torch_encoder

LENGTHS = (3, 1, 40)


def batch() -> Batch:
    return Batch.of([np.arange(6, 6 + length) % 30 for length in LENGTHS])


def classifier(folder: Path, device: torch.device, type: str) -> tuple[Encoder, int]:
    """Return the encoder of a classifier, and its number of layers. type: of the model's device."""
    write_cross_encoder(folder, model_type="eurobert", classifier_pooling="late")
    encoder, layers = torch_encoder(folder, device)
    description = ModelDescription.read(folder)
    return with_own_states(description, encoder, RowExactLinear(frozenset()), Device(type)), layers


def test_states_and_vectors_are_those_that_the_host_computes(tmp_path: Path) -> None:
    device, layers = classifier(tmp_path, CPU, "cuda")
    host, _ = classifier(tmp_path, CPU, "cpu")
    found, expected = (each.vectors(batch(), ["mean"]) for each in (device, host))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for num_layers in (layers - 1, layers):
        found, expected = (each.states(batch(), num_layers) for each in (device, host))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_host_receives_only_the_pooled_vectors(tmp_path: Path) -> None:
    encoder, _ = classifier(tmp_path, META, "meta")
    with ToHost() as received:
        vectors = encoder.vectors(batch(), ["mean"])
    assert received.shapes == [(len(LENGTHS), vectors.shape[1])]
