"""Tests of older encoders behind the server."""

from pathlib import Path

import numpy as np
from gensim.models.doc2vec import Doc2Vec, TaggedDocument

from embedwell_classic.convert.elmo import convert_elmo
from embedwell_classic.convert.gensim_models import convert_doc2vec
from embedwell_classic.convert.laser import convert_laser
from embedwell_models.embedder import Embedder
from embedwell_models.vectors import normalize
from tests.models.elmo_files import write_elmo
from tests.models.laser_files import write_laser2
from tests.service.local_server import local_server

TEXTS = ["The cat sat.", "a work"]


def test_laser_2_is_served(tmp_path: Path) -> None:
    write_laser2(tmp_path / "laser2.pt")
    convert_laser(tmp_path / "laser2.pt", tmp_path / "model")
    expected = normalize(Embedder.load(tmp_path / "model", device="cpu").embed(TEXTS))
    with local_server(tmp_path / "model") as server:
        vectors = server.post("/embed", {"inputs": TEXTS}).json()
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        (tokens,) = server.post("/tokens", {"inputs": "a work", "layer": 0}).json()["results"]
        assert tokens["tokens"][-1]["text"] == "</s>"


def test_elmo_is_served_word_by_word(tmp_path: Path) -> None:
    write_elmo(tmp_path / "elmo_weights.hdf5")
    convert_elmo(tmp_path / "elmo_weights.hdf5", tmp_path / "model")
    ours = Embedder.load(tmp_path / "model", device="cpu")
    (ids,) = ours.tokenize(TEXTS[:1])
    (states,) = ours.hidden([ids])
    words = states[np.array(ids) < 256]
    with local_server(tmp_path / "model") as server:
        vectors = server.post("/embed", {"inputs": TEXTS}).json()
        np.testing.assert_allclose(vectors, normalize(ours.embed(TEXTS)), atol=1e-6)
        body = {"inputs": TEXTS[0], "layout": "block"}
        (result,) = server.post("/tokens", body).json()["results"]
        assert [token["text"] for token in result["tokens"]] == ["The", "cat", "sat", "."]
        np.testing.assert_allclose(result["embeddings"], words, atol=1e-6)
        (result,) = server.post("/tokens", {**body, "spans": [[[4, 11]]]}).json()["results"]
        np.testing.assert_allclose(result["embeddings"], [words[1:3].mean(axis=0)], atol=1e-6)
        chunked = server.post("/tokens", {"chunks": [["a", "b"]]})
        assert (chunked.status_code, chunked.json()["code"]) == (400, "not_offered")


def test_doc2vec_is_served(tmp_path: Path) -> None:
    documents = [TaggedDocument(f"the cat sat a work {i}".split(), [i]) for i in range(20)]
    Doc2Vec(documents, vector_size=8, min_count=1).save(str(tmp_path / "a.model"))
    convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    expected = normalize(Embedder.load(tmp_path / "model", device="cpu").embed(TEXTS))
    with local_server(tmp_path / "model") as server:
        vectors = server.post("/embed", {"inputs": TEXTS}).json()
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        (result,) = server.post("/tokens", {"inputs": "The cat!"}).json()["results"]
        found = [(token["text"], token["in_vocabulary"]) for token in result["tokens"]]
        assert found == [("The", True), ("cat", True)]
        assert server.post("/neighbors", {"inputs": "cat"}).status_code == 400
