"""Tests of the inference of Doc2Vec; tests/models/classic/convert compares it with gensim."""

from dataclasses import replace

import numpy as np

from embedwell_classic.encoders.doc2vec import Doc2VecEncoder, Inference, WordTables
from embedwell_models.config.encoder_config import EncoderConfig

WORDS, WIDTH = 7, 5
OPTIONS = Inference(
    memory=True, window=2, shrink=True, negative=3, epochs=4, alpha=0.5, min_alpha=0.1
)
CONFIG = EncoderConfig(
    family="doc2vec",
    vocab_size=WORDS + 1,
    unknown_id=WORDS,
    hidden_size=WIDTH,
    layers=(),
    max_positions=100,
    norm_eps=0.0,
)


def tables() -> WordTables:
    random = np.random.RandomState(3)
    inputs, outputs = random.normal(0, 1, (2, WORDS, WIDTH)).astype(np.float32)
    noise = np.linspace(1 / WORDS, 1, WORDS, dtype=np.float32)
    return WordTables(inputs, outputs, np.ones(WORDS, dtype=np.float32), noise)


def test_words_that_are_never_kept_move_nothing() -> None:
    ids, kept = np.arange(WORDS), tables()
    never = Doc2VecEncoder(CONFIG, OPTIONS, replace(kept, keep=np.zeros_like(kept.keep)))
    assert np.abs(never.infer(ids)).max() <= 0.5 / WIDTH
    assert np.abs(Doc2VecEncoder(CONFIG, OPTIONS, kept).infer(ids)).max() > 0.5 / WIDTH


def test_unknown_words_count_for_nothing() -> None:
    encoder = Doc2VecEncoder(CONFIG, OPTIONS, tables())
    known, unknown = np.array([1, 2, 3]), np.array([1, WORDS, 2, 3, WORDS])
    np.testing.assert_array_equal(encoder.infer(known), encoder.infer(unknown))
    np.testing.assert_array_equal(encoder.infer(unknown[1:2]), np.zeros(WIDTH))
