"""Questions about words over HTTP, compared with gensim; and about texts, with any dense model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fasttext
import numpy as np
import pytest
from gensim.models import KeyedVectors
from gensim.models.fasttext import load_facebook_vectors

from embedwell_classic.compress.forms import parse_bands
from embedwell_classic.compress.model import Compression, compress_folder
from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_classic.words.table import WordTable
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.vectors import METRICS
from tests.conftest import Folder as WriteModel
from tests.models.tiny import write_static_model
from tests.models.word_files import WORDS, vectors, write_fasttext, write_text
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

TABLE = vectors()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    corpus = folder / "corpus.txt"
    corpus.write_text("the king the queen\nthe man\n", encoding="utf-8")
    path = write_text(folder / "glove.txt", TABLE)
    # Weights and the common component change vectors of texts, but not questions about words.
    convert_words(path, folder / "model", Choices(weights="sif", corpus=corpus))
    return folder / "model"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder) as server:
        yield server


@pytest.fixture(scope="module")
def gensim(folder: Path) -> Any:
    return KeyedVectors.load_word2vec_format(str(folder.parent / "glove.txt"))


def post(server: HttpServer, path: str, **body: Any) -> Any:
    response = server.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def pairs(nearest: list[dict[str, Any]]) -> list[tuple[str, float]]:
    for each in nearest:
        assert WORDS[each["index"]] == each["text"]
    return [(each["text"], round(each["score"], 5)) for each in nearest]


def rounded(expected: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return [(word, round(float(score), 5)) for word, score in expected]


def test_neighbours_of_words_equal_gensims(server: HttpServer, gensim: Any) -> None:
    content = post(server, "/neighbors", inputs=["king", "日本"], k=3)
    assert content["metric"] == "cosine"
    for word, nearest in zip(["king", "日本"], content["neighbors"], strict=True):
        assert pairs(nearest) == rounded(gensim.most_similar(word, topn=3))
    # Case and punctuation fall back, and a word is then left out as well.
    (nearest,) = post(server, "/neighbors", inputs="KING!", k=3)["neighbors"]
    assert nearest == content["neighbors"][0]
    (nearest,) = post(server, "/neighbors", inputs="king unknown queen", k=100)["neighbors"]
    expected = gensim.similar_by_vector(TABLE[1:3].mean(axis=0), topn=100)
    assert pairs(nearest) == rounded([e for e in expected if e[0] not in ("king", "queen")])


@pytest.mark.parametrize("method", ["3CosAdd", "3CosMul"])
def test_analogies_equal_gensims(server: HttpServer, gensim: Any, method: str) -> None:
    question = {"positive": ["king", "woman"], "negative": ["man"]}
    content = post(server, "/analogy", **question, method=method, k=4)
    if method == "3CosAdd":
        expected = gensim.most_similar(**question, topn=4)
    else:
        with pytest.warns(DeprecationWarning, match="init_sims"):  # which gensim itself calls
            expected = gensim.most_similar_cosmul(**question, topn=4)
    assert content["method"] == method
    assert pairs(content["neighbors"]) == rounded(expected)


def test_the_word_that_does_not_match_is_told(tmp_path: Path) -> None:
    convert_words(write_text(tmp_path / "a.txt", TABLE), tmp_path / "model")
    gensim = KeyedVectors.load_word2vec_format(str(tmp_path / "a.txt"))
    words = ["king", "queen", "man", "Berlin"]
    with local_server(tmp_path / "model") as server:
        content = post(server, "/doesnt_match", inputs=words)
    assert content["text"] == words[content["index"]] == gensim.doesnt_match(words)
    assert content["index"] == int(np.argmin(content["scores"]))


def test_fasttexts_unknown_words_have_neighbours_and_are_tokens_of_their_own(
    tmp_path: Path,
) -> None:
    path = write_fasttext(tmp_path / "model.bin")
    convert_words(path, tmp_path / "model")
    gensim, theirs = load_facebook_vectors(str(path)), fasttext.load_model(str(path))
    with local_server(tmp_path / "model") as server:
        (nearest,) = post(server, "/neighbors", inputs="unknwn", k=5)["neighbors"]
        assert pairs(nearest) == rounded(gensim.most_similar("unknwn", topn=5))
        (result,) = post(server, "/tokens", inputs="the unknwn, King")["results"]
        rows = post(server, "/embed_all", inputs="the unknwn, King")[0]
        (spans,) = post(server, "/tokens", inputs="the unknwn, King", spans=[[[0, 10]]])["results"]
    tokens = result["tokens"]
    assert [token["text"] for token in tokens] == ["the", "unknwn", "King"]
    assert [token["in_vocabulary"] for token in tokens] == [True, False, True]
    expected = [theirs.get_word_vector(word) for word in ("the", "unknwn", "king")]
    actual = np.array([token["embedding"] for token in tokens], dtype=np.float32)
    np.testing.assert_array_equal(actual, np.stack(expected))
    np.testing.assert_array_equal(np.array(rows, dtype=np.float32), actual)
    vector = spans["spans"][0]["embedding"]
    np.testing.assert_allclose(vector, np.mean(expected[:2], axis=0), atol=1e-6)


def test_unknown_words_have_zeros_and_are_not_counted(tmp_path: Path) -> None:
    convert_words(write_text(tmp_path / "a.txt", TABLE), tmp_path / "model")
    with local_server(tmp_path / "model") as server:
        (result,) = post(server, "/tokens", inputs="the unknown king")["results"]
        body = {"inputs": "the unknown king", "spans": [[[0, 16]]]}
        (spans,) = post(server, "/tokens", **body)["results"]
        (vector,) = post(server, "/embed", inputs=["the unknown king"], normalize=False)
    assert [token["in_vocabulary"] for token in result["tokens"]] == [True, False, True]
    assert not any(result["tokens"][1]["embedding"])
    mean = TABLE[:2].mean(axis=0)
    np.testing.assert_allclose(vector, mean, atol=1e-7)
    np.testing.assert_allclose(spans["spans"][0]["embedding"], mean, atol=1e-7)


@pytest.mark.parametrize("metric", ["cosine", "dot", "euclidean"])
def test_every_dense_model_finds_neighbours_among_candidates(
    tiny_bert: WriteModel, metric: str
) -> None:
    folder = tiny_bert()
    texts = ["the work", "any license", "of this", "the work", "not you"]
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    questions = ["the work", "by such"]
    scores = METRICS[metric](embedder.embed(questions), embedder.embed(texts))
    with local_server(folder) as server:
        body = {"inputs": questions, "candidates": texts, "metric": metric, "k": 4}
        first, second = post(server, "/neighbors", **body)["neighbors"]
        analogy = post(server, "/analogy", positive=["by"], candidates=texts, k=1)["neighbors"]
        odd = post(server, "/doesnt_match", inputs=texts)
    order = np.argsort(-scores[1], kind="stable")[:4]
    assert [each["index"] for each in second] == order.tolist()
    np.testing.assert_allclose([each["score"] for each in second], scores[1][order], rtol=1e-5)
    assert {each["index"] for each in first} == {1, 2, 4}  # without the question itself
    assert analogy[0]["text"] in texts and odd["text"] in texts


FORMS = {
    "codes": Compression(codes=3),
    "tiers": Compression(tiers=parse_bands("50:12,rest:4"), int8=True),
    "pool": Compression(hash_rows=90),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_smaller_table_answers_by_its_decoded_rows(tmp_path: Path, form: str) -> None:
    names = [f"w{number}" for number in range(300)]
    convert_words(write_text(tmp_path / "a.txt", vectors(300), names), tmp_path / "words")
    compress_folder(tmp_path / "words", tmp_path / "small", FORMS[form])
    table = WordTable.of(ModelDescription.read(tmp_path / "small"))
    assert table is not None
    rows = table[np.array([7, 250])]
    with local_server(tmp_path / "small") as server:
        vector = post(server, "/embed", inputs="w7 w250", normalize=False)[0]
        np.testing.assert_allclose(vector, rows.mean(axis=0), atol=1e-6)
        tokens = post(server, "/tokens", inputs="w7 w250")["results"][0]["tokens"]
        np.testing.assert_allclose([token["embedding"] for token in tokens], rows, atol=1e-6)
        (nearest,) = post(server, "/neighbors", inputs="w250", k=299)["neighbors"]
    cosines = METRICS["cosine"](rows[1:], table[:])[0]
    assert [each["index"] for each in nearest[:5]] == np.argsort(-cosines)[1:6].tolist()


def test_a_static_models_tokens_are_its_words(tmp_path: Path) -> None:
    folder = write_static_model(tmp_path)
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    count = embedder.config.vocab_size
    table = embedder.hidden([range(count)])[0]
    with local_server(folder) as server:
        (nearest,) = post(server, "/neighbors", inputs="work", k=5)["neighbors"]
    (id,) = embedder.tokenize(["work"])[0]
    scores = METRICS["cosine"](table[[id]], table)[0]
    order = [row for row in np.argsort(-scores, kind="stable") if row != id][:5]
    assert [each["index"] for each in nearest] == order
    assert [each["text"] for each in nearest] == [embedder.tokenizer.name(row) for row in order]


@pytest.mark.parametrize(
    ("path", "body", "code", "field"),
    [
        ("/neighbors", {"inputs": ["king", "☃ ☂"]}, "unknown_token", ("inputs", 1)),
        ("/neighbors", {"inputs": "☃"}, "unknown_token", ("inputs", None)),
        ("/analogy", {"positive": ["king"], "negative": ["☃"]}, "unknown_token", ("negative", 0)),
        ("/neighbors", {"inputs": []}, "no_input", ("inputs", None)),
        ("/neighbors", {"inputs": "king", "prompt": "a "}, "invalid_request", ("prompt", None)),
        ("/neighbors", {"inputs": "king", "k": 0}, "invalid_request", ("k", None)),
        ("/neighbors", {"inputs": "king", "k": 1001}, "invalid_request", ("k", None)),
        ("/neighbors", {"inputs": "king", "metric": "maxsim"}, "invalid_request", ("metric", None)),
        ("/neighbors", {"inputs": "a", "candidates": []}, "invalid_request", ("candidates", None)),
        ("/analogy", {"positive": []}, "invalid_request", ("positive", None)),
        ("/doesnt_match", {"inputs": ["king"]}, "invalid_request", ("inputs", None)),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_where_it_does_not(
    server: HttpServer, path: str, body: Any, code: str, field: tuple[str | None, int | None]
) -> None:
    failure = error(server.client.post(path, json=body), 400)
    assert (failure["code"], failure["param"], failure["index"]) == (code, *field)


def test_questions_are_limited(server: HttpServer) -> None:
    failure = error(server.client.post("/neighbors", json={"inputs": ["king"] * 257}), 413)
    assert failure["code"] == "too_many_texts"


def test_scores_and_neighbours_are_limited_as_numbers_of_a_response(folder: Path) -> None:
    with local_server(folder, max_values=20) as server:
        body = {"inputs": ["king"] * 3, "candidates": WORDS[:7], "k": 1}
        failure = error(server.client.post("/neighbors", json=body), 413)
        assert failure["code"] == "too_many_values"
        failure = error(server.client.post("/neighbors", json={"inputs": "king", "k": 11}), 413)
        assert failure["code"] == "too_many_values"
        post(server, "/neighbors", inputs="king", k=10)


def test_words_of_a_table_have_no_context_to_share(server: HttpServer) -> None:
    body = {"chunks": [["the king", "queen"]]}
    assert error(server.client.post("/tokens", json=body), 400)["code"] == "not_offered"


def test_a_model_with_layers_needs_candidates(tiny_bert: WriteModel) -> None:
    with local_server(tiny_bert()) as server:
        for path, body in (("/neighbors", {"inputs": "work"}), ("/analogy", {"positive": ["of"]})):
            failure = error(server.client.post(path, json=body), 400)
            assert (failure["code"], failure["param"]) == ("not_offered", "candidates")
        tokens = server.client.post("/tokens", json={"inputs": "work ☃"}).json()["results"][0]
        flags = [token["in_vocabulary"] for token in tokens["tokens"]]
        assert flags == [True, True, False, True]
