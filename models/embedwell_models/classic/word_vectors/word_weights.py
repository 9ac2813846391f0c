"""Weights of the words of a table in the mean of a text."""

from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import weights
from embedwell_models.classic.word_vectors.family import TABLE
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from embedwell_models.vectors import Floats


def read_word_weights(description: ModelDescription, rows: int) -> Floats | None:
    """Read the weights of the rows of a table; None if they are equal. Raises ModelError."""
    if description.sentence.word_weights is None:
        return None
    path = description.path / description.sentence.word_weights
    tensors = {
        name: weights.to_finite_float32(path, name, part)
        for name, part in weights.iterate_tensors(path)
    }
    shapes = {name: part.shape for name, part in tensors.items()}
    if shapes != {TABLE: (rows, 1)}:
        raise ModelError(f"{path} has {shapes}, and the table {rows} words")
    word_weights = tensors[TABLE].flatten()
    _check_options(path, word_weights)
    return word_weights


def _check_options(path: Path, word_weights: Floats) -> None:
    """Raise ModelError if the options of WordWeights state other weights than its tensor.

    sentence-transformers follows the options. Rows after the vocabulary are those of n-grams.
    """
    options = JsonConfig.optional(path / "config.json")
    if "word_weights" not in options:
        return
    stated, other = options["word_weights"], options.get("unknown_word_weight", 1)
    expected = [stated.get(word, stated.get(word.lower(), other)) for word in options["vocab"]]
    expected += [other] * (len(word_weights) - len(expected))
    expected_weights = np.array(expected, np.float32)
    if expected_weights.shape != word_weights.shape or not np.allclose(
        expected_weights, word_weights
    ):
        raise ModelError(
            f"{options.path}: vocab, word_weights or unknown_word_weight contradict the weights in "
            "model.safetensors: load and save the model with sentence-transformers"
        )
