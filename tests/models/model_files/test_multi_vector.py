"""Multi-vector models against sentence-transformers' MultiVectorEncoder."""

import json
from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling
from torch import nn

from embedwell_models import Embedder
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import InputError, ModelError
from embedwell_models.model_files.multi_vector import TextRole
from embedwell_models.outputs.names import MULTI
from embedwell_models.vectors import maxsim
from tests.models.colbert import DOCUMENTS, QUERIES, write_colbert, write_pylate, write_stanford
from tests.models.families.exact import assert_near, expected, expected_list

Write = Callable[[Path], MultiVectorEncoder]
TEXTS: dict[TextRole, list[str]] = {"query": QUERIES, "document": DOCUMENTS}
UNATTENDED = {"strategy": "fixed", "length": 12}


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


def edit(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def check(embedder: Embedder, reference: MultiVectorEncoder) -> None:
    """Compare the vectors of queries and documents with those of sentence-transformers."""
    for role, texts in TEXTS.items():
        exact = expected_list(reference, methodcaller(f"encode_{role}", texts))
        for actual, theirs in zip(embedder.embed_tokens(texts, role), exact, strict=True):
            assert actual.shape == theirs.values.shape
            assert_near(actual, theirs)


@pytest.mark.full(after=1)
@pytest.mark.parametrize(
    "options",
    [
        {"expansion": UNATTENDED, "document_length": 20},
        {"expansion": {**UNATTENDED, "attend": True}, "skipped": ()},
        {"expansion": {**UNATTENDED, "strategy": "min"}, "query_length": 30},
        {"expansion": {**UNATTENDED, "token": "##a"}},
        {"query_length": 9, "prompts": {"query": "by ", "document": "of "}},
    ],
    ids=["unattended", "attended", "shortest", "own token", "no expansion"],
)
def test_vectors_equal_those_of_sentence_transformers(
    options: dict[str, Any], tmp_path: Path
) -> None:
    reference = write_colbert(tmp_path, **options)
    for isa in ("auto", "none"):
        check(load(tmp_path / "model", isa=isa), reference)


@pytest.mark.parametrize(
    "model_type", ["modernbert", "xlm-roberta", "distilbert", "mpnet", "nomic_bert", "qwen3"]
)
@pytest.mark.full(after=2)
def test_vectors_of_every_kind_of_attention_equal(model_type: str, tmp_path: Path) -> None:
    # So long that the last tokens of a ModernBERT see no token of the text in their window.
    expansion = {**UNATTENDED, "length": 100, "strategy": "min"}
    reference = write_colbert(tmp_path, expansion=expansion, model_type=model_type)
    check(load(tmp_path / "model"), reference)


@pytest.mark.parametrize(
    "dense",
    [{"bias": True, "activation_function": nn.GELU()}, {"use_residual": True}, {"outputs": 48}],
    ids=str,
)
def test_every_option_of_a_dense_is_applied(dense: dict[str, Any], tmp_path: Path) -> None:
    if "outputs" in dense:  # as wide as the input, which is then added without another matrix
        dense = {**dense, "use_residual": True}
    reference = write_colbert(tmp_path, dense=dense)
    check(load(tmp_path / "model"), reference)


@pytest.mark.parametrize(
    "card",
    [
        {"query_length": 16, "document_length": 30},
        {"query_length": 16, "attend_to_expansion_tokens": True, "skiplist_words": [",", "no"]},
        {"query_length": 16, "do_query_expansion": False, "model_type": "ColBERT"},
        {"prompts": {"query": "[Q] by ", "document": "of "}},
    ],
    ids=str,
)
def test_a_folder_of_pylate_has_the_vectors_of_sentence_transformers(
    card: dict[str, Any], tmp_path: Path
) -> None:
    reference = write_pylate(tmp_path, **card)
    embedder = load(tmp_path)
    check(embedder, reference)
    assert embedder.tokenizer.encode(["[Q] is"])[0].ids[1] == embedder.tokenizer.token_id("[Q] ")


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"query_maxlen": 20, "doc_maxlen": 25},
        {"attend_to_mask_tokens": True, "mask_punctuation": False, "doc_token_id": "[unused0]"},
    ],
    ids=str,
)
def test_a_folder_of_stanford_has_the_vectors_of_sentence_transformers(
    metadata: dict[str, Any], tmp_path: Path
) -> None:
    reference = write_stanford(tmp_path, **metadata)
    check(load(tmp_path), reference)


@pytest.mark.parametrize("attend", [False, True])
@pytest.mark.parametrize("isa", ["auto", "none"])
def test_a_text_has_the_same_bits_alone_and_in_a_batch(
    isa: str, attend: bool, tmp_path: Path
) -> None:
    write_colbert(tmp_path, expansion={**UNATTENDED, "attend": attend})
    embedder = load(tmp_path / "model", isa=isa)
    for role, texts in TEXTS.items():
        together = embedder.embed_tokens(texts, role)
        for text, rows in zip(texts, together, strict=True):
            (alone,) = embedder.embed_tokens([text], role)
            assert rows.tobytes() == alone.tobytes()


def test_the_scores_are_those_of_sentence_transformers(tmp_path: Path) -> None:
    reference = write_colbert(tmp_path, expansion=UNATTENDED)
    embedder = load(tmp_path / "model")
    queries, documents = (embedder.embed_tokens(TEXTS[role], role) for role in TEXTS)
    scores = [[maxsim(query, document) for document in documents] for query in queries]
    exact = expected(
        reference,
        lambda either: either.similarity(
            either.encode_query(QUERIES), either.encode_document(DOCUMENTS)
        ),
    )
    assert_near(np.array(scores), exact)


def test_documents_are_pooled_as_in_sentence_transformers(tmp_path: Path) -> None:
    reference, pooling = write_colbert(tmp_path), HierarchicalTokenPooling(2)
    embedder = load(tmp_path / "model")
    theirs = reference.encode_document(DOCUMENTS, token_pooling=pooling, convert_to_numpy=True)
    for mine, each in zip(embedder.embed_tokens(DOCUMENTS, pool_factor=2), theirs, strict=True):
        rows, other = mine[np.lexsort(mine.T)], each[np.lexsort(each.T)]
        np.testing.assert_allclose(rows, other, atol=1e-5)
    queries = embedder.embed_tokens(QUERIES, "query", pool_factor=2)
    for mine, each in zip(queries, embedder.embed_tokens(QUERIES, "query"), strict=True):
        np.testing.assert_array_equal(mine, each)
    with pytest.raises(InputError, match="pool_factor is 0"):
        embedder.embed_tokens("a", pool_factor=0)


def test_the_outputs_of_a_text_are_a_vector_of_each_token(tmp_path: Path) -> None:
    write_colbert(tmp_path)
    embedder = load(tmp_path / "model")
    assert embedder.dim == 16
    (outputs,) = embedder.outputs([[2, 40, 41, 3]], [MULTI])
    assert outputs.multi is not None and outputs.multi.shape == (4, 16)
    with pytest.raises(ValueError, match=r"the model has \('multi',\)"):
        embedder.outputs([[2, 3]], ["dense"])
    with pytest.raises(ValueError, match="the model has a vector for each token"):
        embedder.encode([[2, 3]])


def test_a_model_of_dense_vectors_has_none_of_tokens(embedder: Embedder) -> None:
    with pytest.raises(ValueError, match="no vectors of tokens; use embed"):
        embedder.embed_tokens(["a"])
    with pytest.raises(ValueError, match="one vector for each text"):
        embedder.encode_tokens([[101]])


def test_mean_scores_are_read(tmp_path: Path) -> None:
    write_colbert(tmp_path, similarity="meanmaxsim")
    multi_vector = ModelDescription.read(tmp_path / "model").multi_vector
    assert multi_vector and multi_vector.mean_scores


def token_pooling(folder: Path) -> None:
    path = folder / "modules.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    package = "sentence_transformers.multi_vector_encoder.modules.token_pooling"
    kind = f"{package}.HierarchicalTokenPooling"
    path.write_text(json.dumps([*content, {"path": "4_", "type": kind}]), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (token_pooling, r"modules \['HierarchicalTokenPooling'\] are not supported"),
        (
            lambda folder: edit(folder / "2_MultiVectorMask/config.json", keep_only_token_ids=[1]),
            r"keep_only_token_ids = \[1\] is not supported",
        ),
        (
            lambda folder: edit(folder / "1_Dense/config.json", module_input_name="other"),
            "module_input_name = 'other' is not supported",
        ),
        (
            lambda folder: edit(folder / "sentence_bert_config.json", query_length=-3),
            "query_length = -3 is not a whole number above 0",
        ),
        (
            lambda folder: edit(
                folder / "sentence_bert_config.json", query_expansion={"strategy": "most"}
            ),
            "has no 'query_expansion.length'",
        ),
    ],
    ids=["token pooling", "image tokens", "input", "length", "expansion"],
)
def test_an_option_that_is_not_supported_is_refused(
    change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    write_colbert(tmp_path)
    change(tmp_path / "model")
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query_expansion": {**UNATTENDED, "length": 65}}, "expanded to 65 tokens, but .* has 64"),
        ({"query_expansion": {**UNATTENDED, "length": 2}}, "or the length of query_expansion, lea"),
        ({"document_length": 1}, "document_length, or the length of .* leaves no room for a text"),
    ],
)
def test_a_length_without_room_is_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_colbert(tmp_path)
    edit(tmp_path / "model/sentence_bert_config.json", **options)
    with pytest.raises(ModelError, match=message):
        load(tmp_path / "model")


def test_a_pooling_of_the_operator_is_refused(tmp_path: Path) -> None:
    write_colbert(tmp_path)
    with pytest.raises(ModelError, match="a multi-vector model has no pooling"):
        ModelDescription.read(tmp_path / "model", ModelOptions(pooling="mean"))


def test_a_deberta_whose_queries_are_filled_without_attention_is_refused(tmp_path: Path) -> None:
    attended = {**UNATTENDED, "attend": True}
    reference = write_colbert(tmp_path, expansion=attended, model_type="deberta-v2")
    check(load(tmp_path / "model"), reference)
    edit(tmp_path / "model/sentence_bert_config.json", query_expansion=UNATTENDED)
    with pytest.raises(ModelError, match="deberta-v2 without attention to the expansion"):
        ModelDescription.read(tmp_path / "model")


@pytest.mark.parametrize("family", ["canine", "longformer"])
def test_other_queries_that_are_filled_without_attention_are_refused(
    family: str, tmp_path: Path
) -> None:
    write_colbert(tmp_path, expansion=UNATTENDED)
    edit(tmp_path / "model/config.json", model_type=family)
    with pytest.raises(ModelError, match=f"{family} without attention to the expansion"):
        ModelDescription.read(tmp_path / "model")


def test_a_stanford_folder_without_its_projection_is_refused(tmp_path: Path) -> None:
    write_colbert(tmp_path)
    edit(tmp_path / "encoder/config.json", architectures=["HF_ColBERT"])
    with pytest.raises(ModelError, match=r"the checkpoint lacks 'linear\.weight'"):
        ModelDescription.read(tmp_path / "encoder")


@pytest.mark.full
def test_a_precision_is_compared_by_the_vectors_of_tokens(tmp_path: Path) -> None:
    write_colbert(tmp_path)
    embedder = load(tmp_path / "model", dtype="auto")
    assert {trial.dtype for trial in embedder.trials} >= {"float32"}
    assert all(0.9 < trial.cosine <= 1.0 for trial in embedder.trials)
