"""Reading the head of a masked language model."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models.encoder.masked_lm import MaskedLMWeights, load_masked_lm_weights
from embedwell_models.errors import ModelError
from embedwell_models.families.masked_lm_heads import MaskedLMHead
from embedwell_models.vectors import Floats
from tests.models.sparse_encoder import write_masked_lm

HEAD = MaskedLMHead(
    dense="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    output="cls.predictions.decoder",
    output_bias="cls.predictions.bias",
)
TABLE = "bert.embeddings.word_embeddings.weight"


def tensors(folder: Path) -> dict[str, Floats]:
    return load_file(write_masked_lm(folder) / "model.safetensors")


def load(folder: Path, changed: dict[str, Floats]) -> MaskedLMWeights:
    save_file(changed, folder / "model.safetensors")
    return load_masked_lm_weights(folder, HEAD, changed[TABLE], 64)


def test_the_output_matrix_is_the_token_table_unless_the_file_has_another(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    assert np.array_equal(load(tmp_path, read).output[0], read[TABLE])
    own = read[TABLE] + 1
    changed = {**read, "cls.predictions.decoder.weight": own}
    assert np.array_equal(load(tmp_path, changed).output[0], own)


def test_a_norm_that_was_saved_by_tensorflow_is_read(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in read.items()
    }
    norm = load(tmp_path, renamed).norm
    assert norm is not None
    assert np.array_equal(norm[1], read["cls.predictions.transform.LayerNorm.bias"])


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    read = tensors(tmp_path)
    del read["cls.predictions.transform.dense.bias"]
    with pytest.raises(ModelError, match=r"lacks \['cls.predictions.transform.dense.bias'\]"):
        load(tmp_path, read)


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    read = {**tensors(tmp_path), "cls.predictions.bias": np.zeros(7, np.float32)}
    with pytest.raises(ModelError, match=r"cls.predictions.bias has the shape \(7,\)"):
        load(tmp_path, read)
