"""Tests of a mean of the states of several layers, on a device."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer import modules as st

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.loading.backends import HostLinearFactory
from embedwell_models.loading.state_heads import with_state_functions
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, ToHost
from tests.models.model_files.chains import WIDTH, write_layer_weights
from tests.models.torch_backend.encoders import torch_encoder

BATCH = Batch.of([np.arange(6, 6 + length) % 30 for length in (3, 1, 40)])


def mixed(folder: Path, device: torch.device, type: str) -> tuple[Encoder, int]:
    """Return the encoder of a model, and its number of layers. type: of the model's device."""
    encoder, layers = torch_encoder(folder, device)
    description = ModelDescription.read(folder)
    return with_state_functions(
        description, encoder, HostLinearFactory(frozenset()), Device(type)
    ), layers


@pytest.mark.parametrize("start", [0, 1, 3])
def test_states_and_vectors_are_those_that_the_host_computes(start: int, tmp_path: Path) -> None:
    folder = write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], start)
    (device, layers), (host, _) = (mixed(folder, CPU, type) for type in ("cuda", "cpu"))
    found, expected = (each.vectors(BATCH, ["mean"]) for each in (device, host))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for num_layers in range(layers + 1):
        found, expected = (each.states(BATCH, num_layers) for each in (device, host))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_host_receives_only_the_pooled_vectors(tmp_path: Path) -> None:
    folder = write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], 0)
    encoder, _ = mixed(folder, META, "meta")
    with ToHost() as received:
        vectors = encoder.vectors(BATCH, ["mean"])
    assert received.shapes == [(3, vectors.shape[1])]
