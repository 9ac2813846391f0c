"""Tests of folders whose keys or weights may change vectors, such as of other kinds of models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers import sparse_encoder as sparse
from sentence_transformers.base.modules import Module, Normalize, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sparse_encoder.modules import SpladePooling
from transformers import BertForMaskedLM

from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files import refusals
from tests.conftest import Folder as Write
from tests.models.model_files.options import POOLING, TRANSFORMER, configure
from tests.models.tiny import reference, write_tokenizer


def test_an_adapter_beside_the_weights_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"adapter_config.json": {"peft_type": "LORA", "r": 8}})
    with pytest.raises(ModelError, match=r"adapter_config\.json: .*LORA.* next to a whole model"):
        ModelDescription.read(folder)


def test_weights_that_are_quantised_in_an_unknown_way_are_refused(tiny_bert: Write) -> None:
    folder = configure(tiny_bert(), quantization_config={"quant_method": "hqq"})
    with pytest.raises(ModelError, match=r"quantization_config\.quant_method = 'hqq' is not"):
        ModelDescription.read(folder)


def test_a_sparse_autoencoder_over_dense_vectors_is_refused(tmp_path: Path) -> None:
    head = BertForMaskedLM(reference().config)
    head.save_pretrained(tmp_path / "masked")
    write_tokenizer(tmp_path / "masked")
    modules: Callable[..., Any] = sparse.modules.SparseAutoEncoder
    dense = SentenceTransformer(str(tmp_path / "masked"), device="cpu")
    model = SparseEncoder(modules=[*dense, modules(48, hidden_dim=64, k=4)], device="cpu")
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    with pytest.raises(ModelError, match="SparseAutoEncoder"):
        ModelDescription.read(tmp_path / "model")


def test_a_card_of_another_kind_over_dense_modules_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}})
    with pytest.raises(ModelError, match="model_type = 'SparseEncoder' is not supported"):
        ModelDescription.read(folder)


@pytest.mark.parametrize("kind", ["MultiVectorEncoder", "ColBERT"])
def test_a_pooling_in_a_multi_vector_model_is_refused(tiny_bert: Write, kind: str) -> None:
    card = {"config_sentence_transformers.json": {"model_type": kind}}
    folder = tiny_bert({**card, "modules.json": [TRANSFORMER, POOLING]})
    with pytest.raises(ModelError, match=r"'Pooling'.* of a multi-vector model are not supported"):
        ModelDescription.read(folder)


def test_a_card_of_a_dense_model_is_read(tiny_bert: Write) -> None:
    card = {"model_type": "SentenceTransformer"}
    ModelDescription.read(tiny_bert({"config_sentence_transformers.json": card}))


KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(st.Pooling, st.Dense, st.LayerNorm, st.Dropout, Normalize, st.WordWeights),
        *(LogitScore, MultiVectorMask, SpladePooling, st.WeightedLayerPooling),
    )
}


def test_every_key_that_a_module_writes_is_known() -> None:
    assert KINDS.keys() == refusals.MODULE_KEYS.keys()
    for name, kind in KINDS.items():
        assert issubclass(kind, Module)
        assert {*kind.config_keys} <= refusals.MODULE_KEYS[name], name
    assert {*Transformer.config_keys} <= refusals.TRANSFORMER_KEYS


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
