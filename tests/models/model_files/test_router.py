"""Tests of models with other modules for queries, against sentence-transformers."""

from collections.abc import Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer import modules as st
from torch import nn

from embedwell_models import Embedder
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import DENSE, SPARSE
from tests.models.families.exact import assert_near, exact_vectors, expected
from tests.models.model_files.chains import (
    SENTENCES,
    WIDTH,
    after_the_pooling,
    encoder,
    route,
    save,
    two_encoders,
    two_routers,
)
from tests.models.sparse_encoder import write_asymmetric_splade

QUERY, DOCUMENT = "retrieval.query", "retrieval.passage"


BUILDERS = [two_encoders, after_the_pooling, two_routers]


def load(folder: Path, task: str) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", adapter=task)


@pytest.mark.parametrize("build", BUILDERS)
def test_each_task_has_the_vectors_of_its_modules(
    build: Callable[[Path], list[nn.Module]], tmp_path: Path
) -> None:
    theirs = save(tmp_path, build)
    queries, documents = (load(tmp_path / "model", task) for task in (QUERY, DOCUMENT))
    of_queries = expected(
        theirs, lambda either: either.encode_query(SENTENCES, convert_to_tensor=True)
    )
    of_documents = expected(
        theirs, lambda either: either.encode_document(SENTENCES, convert_to_tensor=True)
    )
    assert_near(queries.embed(SENTENCES), of_queries)
    assert_near(documents.embed(SENTENCES), of_documents)
    assert (of_queries.values - of_documents.values).abs().max() > 0.01
    assert queries.fingerprint != documents.fingerprint
    assert queries.output_names == documents.output_names == (DENSE,)


def test_a_task_is_named_and_the_model_s_default_is_the_first(tmp_path: Path) -> None:
    save(tmp_path, two_encoders)
    with pytest.raises(ModelError, match=f"one of {DOCUMENT}, {QUERY}, or none"):
        ModelDescription.read(tmp_path / "model")
    description = ModelDescription.read(tmp_path / "model", ModelOptions(adapter="none"))
    assert description.spec.adapters is not None
    assert description.spec.adapters.names == (DOCUMENT, QUERY)
    assert description.recipe.role == "document"
    assert (
        ModelDescription.read(tmp_path / "model", ModelOptions(adapter=QUERY)).recipe.role
        == "query"
    )


def test_the_default_route_may_be_that_of_queries(tmp_path: Path) -> None:
    def build(folder: Path) -> list[nn.Module]:
        parts = [encoder(folder / "bert")], [st.Pooling(WIDTH, "mean")]
        query, document = (
            [*parts[0], pooling] for pooling in (st.Pooling(WIDTH, "cls"), *parts[1])
        )
        routes: Any = {"query": query, "document": document}
        return [Router(routes)]

    theirs = save(tmp_path, build)
    embedder = load(tmp_path / "model", "none")
    assert_near(embedder.embed(SENTENCES), exact_vectors(theirs, SENTENCES))
    description = ModelDescription.read(tmp_path / "model", ModelOptions(adapter="none"))
    assert description.spec.adapters is not None
    assert description.spec.adapters.names == (QUERY, DOCUMENT)


def test_the_files_are_those_of_the_task(tmp_path: Path) -> None:
    save(tmp_path, two_encoders)
    files = {
        task: {
            path.relative_to(tmp_path / "model").parts[0]
            for path in model_fingerprint.files(
                ModelDescription.read(tmp_path / "model", ModelOptions(adapter=task))
            )
        }
        for task in (QUERY, DOCUMENT)
    }
    assert files[QUERY] & files[DOCUMENT] == {
        *("modules.json", "config_sentence_transformers.json", "router_config.json"),
        "1_Normalize",
    }
    assert files[QUERY] > {"query_0_Transformer", "query_1_Pooling", "query_2_Dense"}
    assert files[DOCUMENT] > {"document_0_Transformer", "document_1_Pooling"}


def test_a_sparse_model_may_have_two_encoders(tmp_path: Path) -> None:
    folder = write_asymmetric_splade(tmp_path / "model")
    theirs: Any = SparseEncoder(str(folder), device="cpu")
    for task, name in ((QUERY, "encode_query"), (DOCUMENT, "encode_document")):
        embedder = load(folder, task)
        assert embedder.output_names == (SPARSE,)
        encode = methodcaller(name, SENTENCES, convert_to_sparse_tensor=False)
        exact = expected(theirs, encode)
        ours = np.zeros(exact.values.shape, np.float32)
        for row, text in zip(
            ours, embedder.outputs(embedder.tokenize(SENTENCES), [SPARSE]), strict=True
        ):
            assert text.sparse is not None
            row[text.sparse.indices] = text.sparse.weights
        assert_near(ours, exact)


def test_routers_with_different_default_routes_are_refused(tmp_path: Path) -> None:
    def build(folder: Path) -> list[nn.Module]:
        dense = [st.Dense(WIDTH, 9)], [st.Dense(WIDTH, 9, bias=False)]
        return [*two_routers(folder), route(*dense, default_route="query")]

    save(tmp_path, build)
    with pytest.raises(ModelError, match=r"default routes \['document', 'query'\], not one"):
        ModelDescription.read(tmp_path / "model")
