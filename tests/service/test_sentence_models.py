"""Sentence models of every kind give the same vectors by the server and by the library."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from embedwell_models.embedder import Embedder
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats
from tests.conftest import Folder as WriteModel
from tests.models.model_files.options import NORMALIZE, POOLING, PROMPT, TRANSFORMER, write_prompted
from tests.models.tiny import unframed, write_static_model
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

SIDES: list[Side] = ["left", "right"]
TEXTS = ["the work of others", "", "any copyright in that license is for you"]


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


def embed(server: HttpServer, **body: object) -> Floats:
    response = server.client.post("/embed", json={"normalize": False, **body})
    assert response.status_code == 200, response.text
    return np.array(response.json(), dtype=np.float32)


def test_the_prompt_is_excluded_from_the_pooling(tiny_bert: WriteModel) -> None:
    folder = write_prompted(tiny_bert, "mean", {"hidden_size": 48})
    embedder = load(folder)
    ids = [2, 50, 60, 3]
    with local_server(folder) as server:
        vectors = embed(server, inputs=[*TEXTS, ids], prompt=PROMPT)
        np.testing.assert_array_equal(
            vectors, [*embedder.embed(TEXTS, prompt=PROMPT), *embedder.encode([ids])]
        )
        # Truncated at the left, a long text loses its prompt, so that nothing is excluded.
        long = " ".join(["work"] * 100)
        vectors = embed(server, inputs=long, prompt=PROMPT, truncation_direction="left")
        truncated = embedder.tokenizer.encode([long], "left")[0].ids
        np.testing.assert_array_equal(vectors, embedder.encode([truncated]))


def test_the_request_overrides_the_truncation_side_of_the_model(tiny_bert: WriteModel) -> None:
    folder = tiny_bert({"tokenizer_config.json": {"truncation_side": "left"}})
    embedder, long = load(folder), "the work " * 100 + "is for you"
    ends, starts = (embedder.encode([embedder.tokenizer.encode([long], s)[0].ids]) for s in SIDES)
    assert not np.array_equal(ends, starts)
    with local_server(folder) as server:
        for options in ({}, {"truncate": True}, {"truncation_direction": None}):
            np.testing.assert_array_equal(embed(server, inputs=long, **options), ends)
        for override in ({"truncation_direction": "right"}, {"on_overflow": "end"}):
            np.testing.assert_array_equal(embed(server, inputs=long, **override), starts)


def test_modules_after_the_pooling_are_applied(tiny_bert: WriteModel) -> None:
    dense = {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}
    folder = tiny_bert(
        {
            "modules.json": [TRANSFORMER, POOLING, dense, NORMALIZE],
            "1_Pooling/config.json": {"pooling_mode": "mean"},
            "2_Dense/config.json": {"in_features": 48, "out_features": 7, "bias": False},
        }
    )
    weight = np.random.default_rng(1).normal(size=(7, 48)).astype(np.float32)
    save_file({"linear.weight": weight}, folder / "2_Dense" / "model.safetensors")
    with local_server(folder) as server:
        vectors = embed(server, inputs=TEXTS, normalize=True)
        np.testing.assert_allclose(vectors, load(folder).embed(TEXTS), atol=1e-6)
        assert server.client.get("/info").json()["engine"]["dim"] == 7


def test_static_embeddings_are_served(tmp_path: Path) -> None:
    folder = write_static_model(tmp_path)
    embedder = load(folder)
    expected = embedder.embed(TEXTS)
    with local_server(folder) as server:
        np.testing.assert_array_equal(embed(server, inputs=TEXTS), expected)
        tokens = server.client.post("/tokens", json={"inputs": TEXTS}).json()["results"]
        lengths = [len(row) for row in embedder.tokenize(TEXTS)]
        assert [len(result["tokens"]) for result in tokens] == lengths


@pytest.mark.parametrize("path", ["/embed", "/embed_all", "/tokens"])
def test_a_text_without_tokens_is_refused_if_the_model_needs_one(
    tiny_bert: WriteModel, path: str
) -> None:
    folder = unframed(tiny_bert())
    with local_server(folder) as server:
        failure = error(server.client.post(path, json={"inputs": ["work", "", "of"]}), 400)
        assert (failure["code"], failure["index"]) == ("no_input", 1)
        assert failure["message"].startswith("input 1 has no tokens, but the model needs at ")


def test_windows_of_unknown_words_do_not_change_the_mean(tmp_path: Path) -> None:
    with local_server(write_static_model(tmp_path)) as server:
        texts = ["work of", "☃ " * 600, "☃", "☃ " * 600 + "work"]
        vectors = embed(server, inputs=texts, on_overflow="mean")
        np.testing.assert_array_equal(vectors[1], vectors[2])
        np.testing.assert_array_equal(vectors[3], embed(server, inputs="work")[0])
