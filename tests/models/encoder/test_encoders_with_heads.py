"""A weighted mean of the states of several layers, against sentence-transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from embedwell_models import Embedder
from embedwell_models.errors import ModelError
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.model_files.chains import SENTENCES, WIDTH, write_layer_weights


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_vectors_are_those_of_the_mean(start: int, mode: str, tmp_path: Path) -> None:
    folder = write_layer_weights(tmp_path, [st.Pooling(WIDTH, mode), st.Normalize()], start)
    expected = exact_vectors(SentenceTransformer(str(folder), device="cpu"), SENTENCES)
    embedder = load(folder)
    assert_near(embedder.embed(SENTENCES), expected)
    alone = np.concatenate([embedder.embed([text]) for text in SENTENCES])
    assert embedder.embed(SENTENCES).tobytes() == alone.tobytes()


def test_states_before_the_last_are_those_of_the_layers(tmp_path: Path) -> None:
    folder = write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], 1)
    ids = load(folder).tokenize(SENTENCES[:2])
    plain = load(tmp_path / "bert")
    for layer in range(3):
        ours, theirs = (each.hidden(ids, layer) for each in (load(folder), plain))
        assert all(map(np.array_equal, ours, theirs))
    assert not np.array_equal(load(folder).hidden(ids)[0], plain.hidden(ids)[0])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [(torch.ones(5), r"\(5,\).*requires.*\(3,\)"), (torch.tensor([1.0, 1, -2]), "sum .* is 0")],
    ids=["count", "zero"],
)
def test_other_weights_are_refused(numbers: Any, message: str, tmp_path: Path) -> None:
    folder = write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], 1)
    save_file({"layer_weights": numbers}, folder / "1_WeightedLayerPooling/model.safetensors")
    with pytest.raises(ModelError, match=message):
        load(folder)
