"""Options of a weighted mean of the states of several layers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st

from embedwell_models import Embedder, model_fingerprint
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.model_files.chains import SENTENCES, WIDTH, write_layer_weights
from tests.models.model_files.options import configure

PART = "1_WeightedLayerPooling"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with weights of the states after each layer."""
    return write_layer_weights(tmp_path, [st.Pooling(WIDTH, "mean")], 1)


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values), encoding="utf-8")


def test_the_module_has_no_effect_unless_all_states_are_asked_for(folder: Path) -> None:
    configure(folder, output_hidden_states=False)
    assert ModelDescription.read(folder).sentence.layer_weights is None
    expected = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    ours = Embedder.load(folder, device="cpu", dtype="float32").embed(SENTENCES)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_weights_decide_the_fingerprint(folder: Path) -> None:
    before = model_fingerprint.fingerprint(ModelDescription.read(folder))
    path = folder / PART / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert model_fingerprint.fingerprint(ModelDescription.read(folder)) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hidden_layers": 12}, "num_hidden_layers = 12"),
        ({"layer_start": 9}, "layer_start = 9"),
        ({"layer_power": 2}, "layer_power = 2 is not known"),
    ],
    ids=["layers", "start", "unknown"],
)
def test_other_options_are_refused_by_name(
    options: dict[str, Any], message: str, folder: Path
) -> None:
    edit(folder / PART / "config.json", **options)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(folder)


def test_the_module_without_a_pooling_is_refused(folder: Path) -> None:
    path = folder / "modules.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:2]), encoding="utf-8")
    with pytest.raises(ModelError, match=r"WeightedLayerPooling.* in this order"):
        ModelDescription.read(folder)
