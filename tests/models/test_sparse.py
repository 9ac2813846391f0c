"""Sparse vectors against sentence-transformers' SparseEncoder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SparseEncoder

from embedwell_models import Embedder
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.encoder.splade import SpladeEncoder
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.vectors import Floats
from tests.models.built import BUILT, kernels
from tests.models.cross_encoder import without_options_of_heads
from tests.models.families.exact import Expected, assert_near, exactly
from tests.models.sparse_encoder import (
    FAMILIES,
    write_inference_free,
    write_masked_lm,
    write_splade,
)
from tests.models.tiny import VOCABULARY

TEXTS = ["the license", "a copyright of this work, by any", "x", "you " * 300, ""]
V = len(VOCABULARY)


def load(folder: Path, dtype: str = "float32", **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype=dtype, **options)


def full(vectors: Sequence[SparseVector | None]) -> Floats:
    """Sparse vectors with their zeros: (B, V)."""
    rows = np.zeros((len(vectors), V), dtype=np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        assert vector is not None and (vector.weights != 0).all()
        assert (np.diff(vector.indices) > 0).all()
        row[vector.indices] = vector.weights
    return rows


def sparse(embedder: Embedder, texts: Sequence[str] = TEXTS, output: str = SPARSE) -> Floats:
    outputs = embedder.outputs(embedder.tokenize(texts), [output])
    return full([text_outputs.sparse for text_outputs in outputs])


def reference(folder: Path, task: str = "document") -> Expected:
    """Vectors of TEXTS one by one, as sentence-transformers truncates and computes them."""
    model = SparseEncoder(str(folder), device="cpu")
    encode: Any = {"document": model.encode_document, "query": model.encode_query}[task]

    @exactly
    def vectors() -> Any:
        return torch.stack([encode([t], convert_to_sparse_tensor=False)[0] for t in TEXTS])

    return vectors()


@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.full(after=2)
def test_vectors_of_every_family_equal_those_of_sentence_transformers(
    model_type: str, tmp_path: Path
) -> None:
    folder = write_splade(tmp_path / "model", model_type)
    embedder, expected = load(folder), reference(folder)
    assert embedder.output_names == (SPARSE,) and embedder.dim == V
    assert_near(sparse(embedder), expected)
    assert (expected.values == 0).any(), "some weights are zero, or relu is not tested"


@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.full(after=2)
def test_a_head_without_options_has_those_of_its_class(model_type: str, tmp_path: Path) -> None:
    folder = without_options_of_heads(write_masked_lm(tmp_path, model_type))
    assert_near(sparse(load(folder, pooling="splade")), reference(folder))


@pytest.mark.parametrize("model_type", ["albert", "deberta-v2", "gte", "nomic_bert", "roberta"])
@pytest.mark.full(after=2)
def test_the_activation_of_a_head_is_that_of_its_class(model_type: str, tmp_path: Path) -> None:
    folder = write_masked_lm(tmp_path, model_type, hidden_act="relu")
    assert_near(sparse(load(folder, pooling="splade")), reference(folder))


@pytest.mark.full(after=2)
@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("isa", ["auto", "none"])
def test_the_options_of_the_pooling_are_applied(
    pooling: str, activation: str, isa: str, tmp_path: Path
) -> None:
    options = {"pooling_strategy": pooling, "activation_function": activation}
    folder = write_splade(tmp_path / "model", **options)
    assert_near(sparse(load(folder, isa=isa)), reference(folder))


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("isa", ["auto", "none"])
def test_a_head_may_be_the_output_alone(pooling: str, isa: str, tmp_path: Path) -> None:
    folder = write_splade(tmp_path / "model", "eurobert", pooling_strategy=pooling)
    embedder = load(folder, isa=isa)
    vectors = sparse(embedder)
    assert_near(vectors, reference(folder))
    if isa == "auto":
        alone = np.concatenate([sparse(embedder, [text]) for text in TEXTS])
        assert np.array_equal(vectors, alone)


def test_a_masked_language_model_is_a_sparse_encoder_if_the_pooling_says_so(tmp_path: Path) -> None:
    plain = write_masked_lm(tmp_path / "plain")
    embedder = load(plain, pooling="splade")
    assert embedder.recipe.pooling_source == "setting"
    saved = write_splade(tmp_path / "saved")
    assert np.array_equal(sparse(embedder), sparse(load(saved)))


@pytest.mark.parametrize("options", [{"classifier_bias": True, "norm_bias": True}, {}], ids=str)
def test_the_options_of_modernberts_head_are_applied(
    options: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_masked_lm(tmp_path, "modernbert", classifier_activation="silu", **options)
    assert_near(sparse(load(folder, pooling="splade")), reference(folder))


def test_an_output_matrix_of_its_own_is_read(tmp_path: Path) -> None:
    folder = write_masked_lm(tmp_path, "bert", tie_word_embeddings=False)
    assert_near(sparse(load(folder, pooling="splade")), reference(folder))


@pytest.mark.full(after=2)
@pytest.mark.parametrize(
    ("isa", "dtype"), [*BUILT, pytest.param("none", "float32", id="none-float32")]
)
def test_a_text_is_the_same_bits_alone_and_in_a_batch(isa: str, dtype: str, tmp_path: Path) -> None:
    embedder = load(write_splade(tmp_path / "model"), dtype, isa=isa)
    texts = [*TEXTS, *(f"{word} work" for word in VOCABULARY)]
    alone = np.concatenate([sparse(embedder, [text]) for text in texts])
    assert np.array_equal(sparse(embedder, texts), alone)


@kernels
def test_every_precision_is_close_to_float32(kernels: str, dtype: str, tmp_path: Path) -> None:
    folder = write_splade(tmp_path / "model")
    exact, rounded = sparse(load(folder, isa="none")), sparse(load(folder, dtype, isa=kernels))
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(rounded, axis=1)
    assert ((exact * rounded).sum(axis=1) / lengths).min() > 0.999


@pytest.mark.parametrize("as_json", [False, True])
def test_queries_have_weights_of_their_own_where_the_model_says_so(
    as_json: bool, tmp_path: Path
) -> None:
    weights = torch.rand(V, generator=torch.Generator().manual_seed(3))
    weights[VOCABULARY["work"]] = 0
    folder = write_inference_free(tmp_path / "model", weights, as_json)
    embedder = load(folder)
    assert embedder.output_names == (SPARSE, SPARSE_QUERY)
    if as_json:  # sentence-transformers reads it from the current folder only
        other = write_inference_free(tmp_path / "other", weights)
        assert_near(sparse(embedder, output=SPARSE_QUERY), reference(other, "query"))
    else:
        assert_near(sparse(embedder, output=SPARSE_QUERY), reference(folder, "query"))
        assert_near(sparse(embedder), reference(folder))


def test_a_text_whose_states_are_not_finite_has_no_finite_vector(tmp_path: Path) -> None:
    embedder = load(write_splade(tmp_path / "model"))
    ids = embedder.tokenize(["the", "work"])
    assert isinstance(embedder._inputs, InputTables | InputEmbeddings)
    inputs = embedder._inputs
    rows = inputs.token_rows if isinstance(inputs, InputTables) else inputs.tokens
    assert rows is not None
    with torch.inference_mode():
        rows[VOCABULARY["work"]] = float("nan")
    finite, broken = (outputs.sparse for outputs in embedder.outputs(ids, [SPARSE]))
    assert finite is not None and np.isfinite(finite.weights).all()
    assert broken is not None and np.isnan(broken.weights).all()


@pytest.mark.parametrize("isa", ["auto", "none"])
def test_a_token_that_is_not_finite_is_not_hidden_by_later_ones(isa: str, tmp_path: Path) -> None:
    encoder = load(write_splade(tmp_path / "model"), isa=isa)._encoder
    assert isinstance(encoder, SpladeEncoder)
    states = np.ones((4, 64), dtype=np.float32)
    states[0] = np.inf
    broken, finite = encoder._head(states, [2, 2])
    assert np.isnan(broken).all() and np.isfinite(finite).all()


def test_an_output_that_the_model_lacks_is_refused(tmp_path: Path) -> None:
    embedder = load(write_splade(tmp_path / "model"))
    with pytest.raises(ValueError, match=r"no outputs \['dense'\]; the model has \('sparse',\)"):
        embedder.outputs([[1]], ["dense"])


def test_many_short_texts_equal_those_alone(tmp_path: Path) -> None:
    embedder = load(write_splade(tmp_path / "model"))
    ids = embedder.tokenize([word for word in VOCABULARY for _ in range(5)])
    rows = full([outputs.sparse for outputs in embedder.outputs(ids, [SPARSE])])
    assert np.array_equal(rows[::5], sparse(embedder, list(VOCABULARY)))
