"""Tests of the card and of folders without modules.json, against sentence-transformers."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer import modules as st

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_files.card import CARD, declared_dimensions
from embedwell_models.outputs.names import SPARSE
from tests.conftest import Folder as Write
from tests.models import tiny
from tests.models.colbert import write_stanford
from tests.models.cross_encoder import write_cross_encoder
from tests.models.families.exact import assert_near, exact_vectors, expected, expected_list
from tests.models.model_files.options import configure
from tests.models.sparse_encoder import write_inference_free, write_masked_lm

TEXTS = ["any license to the work " * 4 + "that is such", "By THIS Copyright", "you"]
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[2])]
OPTIONAL: dict[str, Any] = {  # files that sentence-transformers reads besides modules.json only
    "sentence_bert_config.json": {"max_seq_length": 7, "do_lower_case": True},
    CARD: {
        "prompts": {"query": "the work of "},
        "default_prompt_name": "query",
        "truncate_dim": 16,
        "activation_fn": "torch.nn.modules.linear.Identity",
    },
    "1_Pooling/config.json": {"pooling_mode": "cls", "embedding_dimension": 48},
}

optional = pytest.mark.parametrize("names", [[name] for name in OPTIONAL] + [[*OPTIONAL]], ids=str)


def add(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(OPTIONAL[name]), encoding="utf-8")
    return folder


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


def sparse(embedder: Embedder) -> Any:
    """Sparse vectors with their zeros: (B, V)."""
    rows = np.zeros((len(TEXTS), embedder.dim), dtype=np.float32)
    outputs = embedder.outputs(embedder.tokenize(TEXTS), [SPARSE])
    for row, vector in zip(rows, [text_outputs.sparse for text_outputs in outputs], strict=True):
        assert vector is not None
        row[vector.indices] = vector.weights
    return rows


@optional
def test_a_dense_model_without_modules_ignores_what_they_would_need(
    tiny_bert: Write, names: Sequence[str]
) -> None:
    folder = add(tiny_bert(), names)
    theirs = exact_vectors(SentenceTransformer(str(folder), device="cpu"), TEXTS)
    assert_near(load(folder).embed(TEXTS), theirs)


@optional
def test_a_cross_encoder_without_modules_ignores_what_they_would_need(
    tmp_path: Path, names: Sequence[str]
) -> None:
    folder = add(write_cross_encoder(tmp_path), names)
    model = CrossEncoder(str(folder), device="cpu")
    theirs = expected(model, lambda either: either.predict(PAIRS, convert_to_tensor=True))
    ours = load(folder)
    assert ours.classifier is not None and ours.classifier.activation == "sigmoid"
    scores = 1 / (1 + np.exp(-ours.score(PAIRS)[:, 0]))
    assert_near(scores, theirs)


@optional
def test_a_sparse_encoder_without_modules_ignores_what_they_would_need(
    tmp_path: Path, names: Sequence[str]
) -> None:
    folder = add(write_masked_lm(tmp_path), names)
    model = SparseEncoder(str(folder), device="cpu")
    theirs = exact_vectors(model, TEXTS, convert_to_sparse_tensor=False)
    assert_near(sparse(load(folder, pooling="splade")), theirs)


@optional
def test_a_multi_vector_model_without_modules_ignores_what_they_would_need(
    tmp_path: Path, names: Sequence[str]
) -> None:
    model = write_stanford(tmp_path, mask_punctuation=True)
    folder = add(tmp_path, names)
    ours = load(folder)
    reference = type(model)(str(folder), device="cpu")
    theirs = expected_list(reference, lambda either: either.encode_document(TEXTS))
    for mine, other in zip(ours.embed_tokens(TEXTS), theirs, strict=True):
        assert_near(mine, other)


@pytest.mark.parametrize("dimensions", [16, 48, 100, None])
@pytest.mark.parametrize("after", [[], [st.Normalize()]], ids=["alone", "normalised"])
def test_vectors_are_truncated_as_the_card_says(
    tmp_path: Path, dimensions: int | None, after: list[Any]
) -> None:
    tiny.write_bert(tmp_path / "bert")
    parts = [st.Transformer(str(tmp_path / "bert")), st.Pooling(48), *after]
    model = SentenceTransformer(modules=parts, truncate_dim=dimensions, device="cpu")
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    model = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    theirs, ours = exact_vectors(model, TEXTS), load(tmp_path / "model")
    assert_near(ours.embed(TEXTS), theirs)
    assert ours.dim == theirs.values.shape[1]


@pytest.mark.parametrize("value", [0, -1, "16", 1.5])
def test_a_truncation_to_no_number_of_dimensions_is_refused(tiny_bert: Write, value: Any) -> None:
    with pytest.raises(ModelError, match=rf"{CARD}: truncate_dim = .* is not a whole number"):
        ModelDescription.read(tiny_bert({CARD: {"truncate_dim": value}}))


def write_router(folder: Path, **options: Any) -> Path:
    """Save a model with a Router, whose queries have the modules of documents."""
    tiny.write_bert(folder / "bert")
    both = [st.Transformer(str(folder / "bert")), st.Pooling(48, "mean")]
    router = Router.for_query_document(query_modules=both, document_modules=both, **options)
    model = SentenceTransformer(modules=[router], device="cpu")
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return folder / "model"


@pytest.mark.parametrize("default", ["query", "document"])
def test_a_router_of_the_same_modules_is_like_these(tmp_path: Path, default: str) -> None:
    folder = write_router(tmp_path, default_route=default)
    model = SentenceTransformer(str(folder), device="cpu")
    queries = expected(model, lambda either: either.encode_query(TEXTS, convert_to_tensor=True))
    for vectors in (exact_vectors(model, TEXTS), queries):
        assert_near(load(folder).embed(TEXTS), vectors)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"default_route": "query"}, "default_route = 'query'"),
        ({"default_route": None, "allow_empty_key": True}, "default_route = 'query'"),
        ({"route_mappings": {"(None, 'text')": "query"}}, "route_mappings = "),
        ({"fallback": "query"}, "fallback = 'query' is not known"),
    ],
)
def test_parameters_of_a_router_that_choose_another_route_are_refused(
    tmp_path: Path, parameters: dict[str, Any], message: str
) -> None:
    folder = write_inference_free(tmp_path / "model", torch.rand(len(tiny.VOCABULARY)))
    ModelDescription.read(folder)
    path = folder / "router_config.json"
    content = json.loads(path.read_text())
    content["parameters"] |= parameters
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=rf"router_config\.json: parameters\.{message}"):
        ModelDescription.read(folder)


def test_the_card_of_a_folder_without_modules_still_names_the_kind(tiny_bert: Write) -> None:
    folder = configure(tiny_bert(), architectures=["BertModel"])
    (folder / CARD).write_text('{"model_type": "SparseEncoder"}')
    with pytest.raises(ModelError, match="model_type = 'SparseEncoder' is not supported"):
        ModelDescription.read(folder)


def write(folder: Path, **config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        ({}, ()),
        ({"is_matryoshka": False}, ()),
        ({"is_matryoshka": True}, range(1, 9)),
        ({"matryoshka_dimensions": [8, 4, 2]}, [2, 4, 8]),
        ({"matryoshka_dimensions": [4], "is_matryoshka": True}, [4]),
    ],
)
def test_lengths_are_read_from_the_keys_that_checkpoints_have(
    tmp_path: Path, config: dict[str, object], lengths: Collection[int]
) -> None:
    assert declared_dimensions(write(tmp_path, **config), 8) == lengths


@pytest.mark.parametrize("listed", [[9], [0], [2.0], [True], "4", {"4": 1}])
def test_what_is_no_list_of_lengths_is_refused(tmp_path: Path, listed: object) -> None:
    with pytest.raises(ModelError, match="matryoshka_dimensions"):
        declared_dimensions(write(tmp_path, matryoshka_dimensions=listed), 8)
