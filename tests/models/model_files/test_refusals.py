"""Tests of folders that hold something else than a dense text embedder with plain weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers import sparse_encoder as sparse
from transformers import BertForMaskedLM

from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.conftest import Folder as Write
from tests.models.model_files.options import POOLING, TRANSFORMER, configure
from tests.models.tiny import reference, write_tokenizer


def test_an_adapter_beside_the_weights_is_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"adapter_config.json": {"peft_type": "LORA", "r": 8}})
    with pytest.raises(ModelError, match=r"adapter_config\.json: .*LORA.* beside a whole model"):
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
