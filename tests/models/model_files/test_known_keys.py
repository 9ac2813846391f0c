"""Tests of the keys of cards and modules, against the keys that sentence-transformers writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers.base.modules import Module, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sparse_encoder.modules import SpladePooling

from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files import known_keys
from embedwell_models.model_files.known_keys import MODULES, TRANSFORMER
from tests.conftest import Folder as Write

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(st.Pooling, st.Dense, st.LayerNorm, st.Dropout, Normalize, st.WordWeights),
        *(LogitScore, MultiVectorMask, SpladePooling, st.WeightedLayerPooling),
    )
}


def known(keys: known_keys.FileKeys) -> set[str]:
    return {*keys.read, *keys.ignored}


def test_every_key_that_a_module_writes_is_known() -> None:
    assert KINDS.keys() == MODULES.keys()
    for name, kind in KINDS.items():
        assert issubclass(kind, Module)
        assert {*kind.config_keys} <= known(MODULES[name]), name
    assert {*Transformer.config_keys} <= known(TRANSFORMER)


@pytest.mark.parametrize(
    "name",
    [
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
    ],
)
def test_another_key_is_refused_by_its_name_and_file(tiny_bert: Write, name: str) -> None:
    folder = tiny_bert({"sentence_bert_config.json": {}, "config_sentence_transformers.json": {}})
    path: Path = folder / name
    stated = json.loads(path.read_text())
    path.write_text(json.dumps({**stated, "layer": None}))
    ModelDescription.read(folder)
    path.write_text(json.dumps({**stated, "layer": -2}))
    with pytest.raises(ModelError, match=rf"{name}: layer = -2 is not known.* Remove the key"):
        ModelDescription.read(folder)


def test_another_key_of_an_entry_of_modules_json_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"sentence_bert_config.json": {}})
    path: Path = folder / "modules.json"
    entries = json.loads(path.read_text())
    path.write_text(json.dumps([{**entry, "scale": 2} for entry in entries]))
    with pytest.raises(ModelError, match=r"modules\.json: scale = 2 is not known"):
        ModelDescription.read(folder)
