"""Decomposed texts at a server and in bulk with unicode_normalization."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from embedwell.settings.settings import Settings
from embedwell_bulk.local_model import load_local_model
from tests.models.published_pieces import DECOMPOSED, write_published
from tests.service.local_server import local_server
from tests.service.server import HttpServer

COMPOSED = [unicodedata.normalize("NFC", text) for text in DECOMPOSED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_published(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def composing(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, unicode_normalization="nfc", vector_cache_bytes=1 << 20) as server:
        yield server


def test_decomposed_texts_have_the_vectors_of_composed_ones(
    composing: HttpServer, folder: Path
) -> None:
    assert composing.client.get("/info").json()["unicode_normalization"] == "nfc"
    decomposed = composing.post("/embed", {"inputs": DECOMPOSED}).json()
    assert decomposed == composing.post("/embed", {"inputs": COMPOSED}).json()
    with local_server(folder) as plain:
        assert plain.client.get("/info").json()["unicode_normalization"] == "none"
        assert plain.post("/embed", {"inputs": COMPOSED}).json() == decomposed
        assert plain.post("/embed", {"inputs": DECOMPOSED}).json() != decomposed
        prints = {s.client.get("/info").json()["engine"]["fingerprint"] for s in (plain, composing)}
    assert len(prints) == 2


def test_spans_and_tokens_have_offsets_of_the_text_that_was_sent(composing: HttpServer) -> None:
    text, composed = DECOMPOSED[1], COMPOSED[1]
    word, same = (unicodedata.normalize(form, "việt") for form in ("NFD", "NFC"))
    vectors = []
    for sent, part in ((text, word), (composed, same)):
        span = [sent.index(part), sent.index(part) + len(part)]
        body = {"inputs": [sent], "spans": [[span]]}
        [result] = composing.post("/tokens", body).json()["results"]
        vectors.append(result["spans"][0]["embedding"])
        [tokens] = composing.post("/tokenize", {"inputs": sent}).json()
        start, stop = (len(sent[:end].encode()) for end in span)  # /tokenize counts bytes
        assert {"text": part, "start": start, "stop": stop}.items() <= tokens[5].items()
    assert vectors[0] == vectors[1]


def test_bulk_composes_letters(folder: Path) -> None:
    model = load_local_model(
        Settings(model=str(folder), device="cpu", dtype="float32", unicode_normalization="nfc"),
        None,
    )
    vectors, _ = model.embed([*DECOMPOSED, *COMPOSED], lambda _: None)
    assert np.array_equal(vectors[: len(DECOMPOSED)], vectors[len(DECOMPOSED) :])
