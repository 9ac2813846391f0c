"""Options in a sparse encoder's files, and refusals of others."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.model_files.sparse import QueryWeights, Splade
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from tests.conftest import Folder as Write
from tests.models.sparse_encoder import write_inference_free, write_masked_lm, write_splade
from tests.models.tiny import VOCABULARY


def edit(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def test_a_splade_model_has_sparse_vectors_alone(tmp_path: Path) -> None:
    folder = ModelDescription.read(write_splade(tmp_path / "model", pooling_strategy="sum"))
    assert folder.outputs == (SPARSE,) and folder.task == "embed"
    splade = folder.recipe.sparse
    assert isinstance(splade, Splade) and (splade.pooling, splade.log_twice) == ("sum", False)
    assert folder.dim == len(VOCABULARY)


def test_an_older_card_names_the_encoder_by_another_class(tmp_path: Path) -> None:
    folder = write_splade(tmp_path / "model")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}', encoding="utf-8")
    path = folder / "modules.json"
    modules = json.loads(path.read_text(encoding="utf-8"))
    modules[0]["type"] = "sentence_transformers.sparse_encoder.models.MLMTransformer"
    path.write_text(json.dumps(modules), encoding="utf-8")
    assert ModelDescription.read(folder).recipe.max_length == 32


def test_queries_without_an_encoder_are_an_output_of_their_own(tmp_path: Path) -> None:
    folder = ModelDescription.read(
        write_inference_free(tmp_path / "model", torch.ones(len(VOCABULARY)))
    )
    assert folder.outputs == (SPARSE, SPARSE_QUERY)
    splade = folder.recipe.sparse
    assert isinstance(splade, Splade) and splade.log_twice
    assert splade.query == QueryWeights("query_0_SparseStaticEmbedding")


def test_the_weights_of_queries_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    ones = torch.ones(len(VOCABULARY))
    first, second = (
        model_fingerprint.fingerprint(
            ModelDescription.read(write_inference_free(tmp_path / f"{factor}", ones * factor))
        )
        for factor in (1, 2)
    )
    assert first != second


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("1_SpladePooling/config.json", {"pooling_strategy": "mean"}, "pooling_strategy = 'mean'"),
        ("1_SpladePooling/config.json", {"activation_function": "tanh"}, "activation_function"),
        ("config.json", {"architectures": ["BertModel"]}, "ends in ForMaskedLM, not BertModel"),
        ("sentence_bert_config.json", {"transformer_task": "text"}, "transformer_task = 'text'"),
    ],
    ids=str,
)
def test_an_option_that_is_not_supported_is_refused(
    file: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = write_splade(tmp_path / "model")
    edit(folder / file, **values)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"structure": {"query": ["", "x"], "document": [""]}}, r"structure = \['', 'x'\]"),
        ({"structure": {"passage": []}}, r"structure = \['passage'\] is not supported"),
        (
            {"structure": {"query": ["document_1_SpladePooling"], "document": []}},
            r"modules \[\] in this order are not supported",
        ),
    ],
    ids=str,
)
def test_other_routes_are_refused(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = write_inference_free(tmp_path / "model", torch.ones(len(VOCABULARY)))
    edit(folder / "router_config.json", **values)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(folder)


def test_a_family_without_a_known_head_is_refused(tiny_bert: Write, tmp_path: Path) -> None:
    folder = write_masked_lm(tmp_path, "bert")
    edit(folder / "config.json", model_type="esm", position_embedding_type="absolute")
    with pytest.raises(ModelError, match="esm"):
        ModelDescription.read(folder, ModelOptions(pooling="splade"))


def test_dense_modules_under_the_card_of_a_sparse_encoder_are_refused(tiny_bert: Write) -> None:
    folder = tiny_bert({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}})
    with pytest.raises(ModelError, match="model_type = 'SparseEncoder' is not supported"):
        ModelDescription.read(folder)
