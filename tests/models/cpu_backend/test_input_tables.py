"""Tests of the first layer's input tables against the embeddings on torch."""

import numpy as np
import pytest
import torch

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.input_tables import FactorizedInput, InputTables
from embedwell_models.encoder.batch import Batch
from embedwell_models.positions.schemes import Learned, Sinusoidal
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.encoder.linear_factories import FACTORIES
from tests.models.shapes import KINDS, VOCABULARY, random_weights, shape

OTHERS = {
    "padding": shape(input_positions=Learned(offset=2)),
    "computed": shape(input_positions=Sinusoidal(), segments=False),
    "scaled": shape(token_scale=8.0),
}
BATCH = Batch.of([[5, 1, 6, 7], [1], [8, 9, 1, 1]])
ROWS = [[5, 3, 6, VOCABULARY + 7], [3], [VOCABULARY, 9, 1]]


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


@pytest.mark.parametrize("positions", [Learned(), Learned(offset=4)])
def test_the_input_of_texts_and_pairs_equals_torchs(positions: Learned) -> None:
    config = shape(embedding_size=32, two_segments=True, input_positions=positions)
    weights = random_weights(config)
    inputs = InputTables.of(config, weights)
    factorized = FactorizedInput.of(inputs, weights, FACTORIES["kernels"])
    assert factorized is not None
    batch = Batch.of(ROWS)
    ours = factorized(batch)
    layout = SequenceLayout([*map(len, ROWS)], torch.device("cpu"))
    ids = np.zeros(layout.rows, dtype=np.int64)
    ids[: len(batch.ids)] = batch.ids
    embeddings = InputEmbeddings(config, weights, torch.device("cpu"))
    expected = embeddings(torch.from_numpy(ids), layout)[: layout.tokens].numpy()
    assert ours.token_vectors is not None
    np.testing.assert_allclose(ours.token_vectors, expected, rtol=1e-5, atol=1e-5)
    assert ours.ids.tolist() == [*range(len(batch.ids))]
    assert np.array_equal(ours.lengths, batch.lengths)


def test_tables_as_wide_as_the_states_are_not_projected() -> None:
    weights = random_weights(shape())
    inputs = InputTables.of(shape(), weights)
    assert FactorizedInput.of(inputs, weights, FACTORIES["kernels"]) is None
