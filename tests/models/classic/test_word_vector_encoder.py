"""Vectors of words and of their n-grams, from rows of ids."""

import numpy as np
import pytest

from embedwell_models.classic.word_vectors.encoder import WEIGHT_SUM_POWERS, WordVectorEncoder
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch
from embedwell_models.model_files.pooling import MODES_WITHOUT_WORD_WEIGHTS
from embedwell_models.model_files.pooling_modes import MODES
from embedwell_models.tables.table import PlainTable
from tests.models.word_files import vectors

ROWS, WIDTH = 20, 6
TABLE = vectors(ROWS, WIDTH)
SIZE, UNKNOWN = ROWS + 1, ROWS
CONFIG = EncoderConfig(
    family="word_vectors",
    vocab_size=SIZE,
    unknown_id=UNKNOWN,
    hidden_size=WIDTH,
    layers=(),
    max_positions=100,
    norm_eps=0.0,
    subwords=True,
)
WEIGHTS = np.random.default_rng(4).uniform(0, 2, ROWS).astype(np.float32)


def encoder(weights: bool = False) -> WordVectorEncoder:
    return WordVectorEncoder(CONFIG, PlainTable(TABLE), WEIGHTS if weights else None)


def more(id: int) -> int:
    """The id of one more n-gram of a word."""
    return id + SIZE


def test_a_word_of_several_ids_is_their_mean_and_counts_once() -> None:
    batch = Batch.of([[3, 15, more(16), more(17), UNKNOWN, 4], [], [UNKNOWN], [15]])
    word = TABLE[15:18].mean(axis=0)
    np.testing.assert_allclose(
        encoder().vectors(batch, ["mean", "max"]),
        [
            np.concatenate(
                [(TABLE[3] + word + TABLE[4]) / 3, np.max([TABLE[3], word, TABLE[4]], 0)]
            ),
            np.zeros(2 * WIDTH),
            np.zeros(2 * WIDTH),
            np.tile(TABLE[15], 2),
        ],
        atol=1e-6,
    )
    states = encoder().states(batch, 0)
    expected = [TABLE[3], word, word, word, np.zeros(WIDTH), TABLE[4], np.zeros(WIDTH), TABLE[15]]
    np.testing.assert_allclose(states, expected, atol=1e-6)


def test_a_text_that_was_cut_inside_of_a_word_begins_with_what_is_left_of_it() -> None:
    batch = Batch.of([[1], [more(16), more(17), 2]])
    (_, second) = encoder().vectors(batch, ["mean"])
    np.testing.assert_allclose(second, (TABLE[16:18].mean(axis=0) + TABLE[2]) / 2, atol=1e-6)


def test_the_ids_of_a_prompt_are_left_out() -> None:
    batch = Batch.of([[1, 15, more(16), 2, 3], [1, 2], [4]], [3, 2, 0])
    np.testing.assert_allclose(
        encoder().vectors(batch, ["mean"]),
        [TABLE[2:4].mean(axis=0), np.zeros(WIDTH), TABLE[4]],
        atol=1e-6,
    )


@pytest.mark.parametrize(("mode", "power"), [("mean", 1.0), ("mean_sqrt_len_tokens", 0.5)])
def test_weights_of_words_count_in_the_mean_and_in_the_states_alone(
    mode: str, power: float
) -> None:
    batch = Batch.of([[1, 15, more(16), UNKNOWN], [UNKNOWN], [3]])
    word, ours = TABLE[15:17].mean(axis=0), encoder(weights=True)
    weighted = WEIGHTS[1] * TABLE[1] + WEIGHTS[15] * word
    np.testing.assert_allclose(
        ours.vectors(batch, [mode]),
        [
            weighted / (WEIGHTS[1] + WEIGHTS[15]) ** power,
            np.zeros(WIDTH),
            TABLE[3] * WEIGHTS[3] ** (1 - power),
        ],
        atol=1e-6,
    )
    np.testing.assert_allclose(
        ours.states(batch, 0)[:2], [WEIGHTS[1] * TABLE[1], WEIGHTS[15] * word]
    )
    np.testing.assert_allclose(ours.part("token", batch)[:2], [TABLE[1], word])


def test_every_pooling_mode_takes_weights_of_words_or_is_refused_with_them() -> None:
    assert sorted([*WEIGHT_SUM_POWERS, *MODES_WITHOUT_WORD_WEIGHTS]) == sorted(MODES)


def test_a_row_is_the_same_bits_in_every_batch() -> None:
    noise = np.random.default_rng(5)
    rows = [noise.integers(0, 2 * SIZE, noise.integers(0, 30)) for _ in range(50)]
    for ours in (encoder(), encoder(weights=True)):
        alone = [ours.vectors(Batch.of([row]), ["mean", "max"]) for row in rows]
        together = ours.vectors(Batch.of(rows), ["mean", "max"])
        assert together.tobytes() == np.concatenate(alone).tobytes()
