"""Tests of the first layer's input tables against the embeddings on torch."""

import numpy as np
import pytest
import torch

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.encoder.batch import Batch
from embedwell_models.positions.schemes import Learned, Sinusoidal
from embedwell_models.torch_backend.encoder import InputEmbeddings
from tests.models.shapes import KINDS, random_weights, shape

OTHERS = {
    "padding": shape(input_positions=Learned(offset=2)),
    "computed": shape(input_positions=Sinusoidal(), segments=False),
    "scaled": shape(token_scale=8.0),
}
BATCH = Batch.of([[5, 1, 6, 7], [1], [8, 9, 1, 1]])


@pytest.mark.parametrize("config", [*KINDS.values(), *OTHERS.values()], ids=[*KINDS, *OTHERS])
@pytest.mark.parametrize("name", ["token", "position", "segment"])
def test_a_part_equals_torchs(config: EncoderConfig, name: str) -> None:
    weights = random_weights(config)
    ours = InputTables.of(config, weights).part(name, BATCH)
    theirs = InputEmbeddings(config, weights, torch.device("cpu")).part(name, BATCH)
    assert np.array_equal(ours, theirs) and ours.dtype == np.float32


def test_a_checkpoints_own_table_comes_before_the_formula() -> None:
    config = shape(input_positions=Sinusoidal(), segments=False)
    table = np.ones((512, 64), dtype=np.float32)
    weights = {**random_weights(config), "position_table": table}
    assert InputTables.of(config, weights).positions is table
