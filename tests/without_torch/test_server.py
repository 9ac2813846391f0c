"""Every kind of model and route, against what transformers and sentence-transformers compute."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from embedwell_models.vectors import Floats
from tests.models.word_files import WORDS, vectors
from tests.service.server import SeveralModels, error_of
from tests.without_torch.conftest import PRECISIONS, Expected
from tests.without_torch.inputs import DOCUMENTS, FAMILIES, IMAGES, LABELS, QUERY, TEXTS

pytestmark = pytest.mark.without_torch

LIBRARIES = ("libtorch", "libc10", "libgomp")
"""Names of files that torch maps into a process."""


def ask(server: SeveralModels, path: str, **body: Any) -> Any:
    """The content of a response to a request."""
    response = server.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def close(actual: Any, wanted: Any, precision: float = 1e-5) -> None:
    """Check that numbers differ by at most a part of the largest one."""
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=precision * abs(wanted).max())


def unit(vectors: Any) -> Any:
    """Vectors divided by their lengths, or one vector."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_torch_is_in_no_process_of_the_server(server: SeveralModels) -> None:
    process = psutil.Process(server.process.pid)
    family = [process, *process.children(recursive=True)]
    assert len(family) > 10, "an engine of each model, and the processes before them"
    for each in family:
        maps = Path(f"/proc/{each.pid}/maps").read_text(encoding="utf-8")
        assert not [name for name in LIBRARIES if name in maps], each.cmdline()


def test_the_description_of_every_model_says_that_torch_takes_no_part(
    server: SeveralModels,
) -> None:
    names = [model["id"] for model in server.client.get("/v1/models").json()["data"]]
    assert len(names) == 10 + len(FAMILIES) + len(PRECISIONS)
    for name in names:
        engine = server.client.get("/info", params={"model": name}).json()["engine"]
        assert engine["torch"] is None, name
    assert "torch" not in server.log.lower()


def test_every_form_of_request_for_dense_vectors_returns_the_same(
    server: SeveralModels, expected: Expected
) -> None:
    wanted = expected("dense")["vectors"]
    texts, model = {"inputs": TEXTS}, {"model": "dense"}
    close(ask(server, "/embed", **texts, **model), wanted)
    data = ask(server, "/v1/embeddings", input=TEXTS, **model)["data"]
    close([item["embedding"] for item in data], wanted)
    body = {"texts": TEXTS, "input_type": "search_document", "embedding_types": ["float"]}
    close(ask(server, "/v2/embed", **body, **model)["embeddings"]["float"], wanted)
    close(ask(server, "/api/embed", input=TEXTS, **model)["embeddings"], wanted)


def test_a_text_has_the_same_bytes_in_any_batch(server: SeveralModels) -> None:
    together = ask(server, "/embed", inputs=[*TEXTS, *DOCUMENTS], model="dense")
    assert [ask(server, "/embed", inputs=text, model="dense")[0] for text in TEXTS] == together[:5]


@pytest.mark.parametrize("name", PRECISIONS)
def test_other_precisions_are_near(server: SeveralModels, expected: Expected, name: str) -> None:
    found = np.array(ask(server, "/embed", inputs=TEXTS, model=name))
    wanted = expected("dense")["vectors"]
    cosines = (found * wanted).sum(axis=1)
    assert cosines.min() > 0.98 and not np.array_equal(found, wanted)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_the_kernels(server: SeveralModels, expected: Expected, name: str) -> None:
    found = ask(server, "/embed", inputs=TEXTS, model=name, normalize=True)
    close(found, expected(name)["vectors"])


def test_sparse_vectors(server: SeveralModels, expected: Expected) -> None:
    found = ask(server, "/embed_sparse", inputs=TEXTS, model="splade")
    for pairs, vector in zip(found, expected("splade")["vectors"], strict=True):
        assert [pair["index"] for pair in pairs] == np.flatnonzero(vector).tolist()
        close([pair["value"] for pair in pairs], vector[vector != 0])


def test_dense_sparse_and_token_vectors_of_one_pass(
    server: SeveralModels, expected: Expected
) -> None:
    outputs = ["dense", "sparse", "multi"]
    found = ask(server, "/embed", inputs=TEXTS, model="bge-m3", outputs=outputs, truncate=True)
    wanted = expected("bge-m3")
    for index in range(len(TEXTS)):
        close(found["embeddings"][index], unit(wanted[f"dense{index}"]))
        ids, weights = wanted[f"sparse{index}"].reshape(-1, 2).T
        sparse = found["sparse"][index]
        assert sparse["indices"] == ids.tolist()
        if len(ids):
            close(sparse["values"], weights)
        close(found["multi"][index], wanted[f"multi{index}"])


def test_vectors_of_tokens_and_their_scores(server: SeveralModels, expected: Expected) -> None:
    wanted, model = expected("colbert"), {"model": "colbert"}
    (query,) = ask(server, "/embed", inputs=QUERY, input_type="query", **model)
    close(query, wanted["query"])
    found = ask(server, "/embed", inputs=DOCUMENTS, input_type="document", **model)
    for index, matrix in enumerate(found):
        close(matrix, wanted[f"document{index}"])
    ranked = ask(server, "/rerank", query=QUERY, texts=DOCUMENTS, raw_scores=True, **model)
    close(_scores(ranked), wanted["scores"])


@pytest.mark.parametrize("name", ["reranker", "generative"])
def test_rerankers(server: SeveralModels, expected: Expected, name: str) -> None:
    wanted, model = expected(name)["scores"], {"model": name, "query": QUERY}
    ranked = ask(server, "/v2/rerank", documents=DOCUMENTS, **model)["results"]
    assert [item["index"] for item in ranked] == np.argsort(-wanted).tolist()
    close([item["relevance_score"] for item in ranked], np.sort(wanted)[::-1])
    close(_scores(ask(server, "/rerank", texts=DOCUMENTS, **model)), wanted)


def _scores(ranked: list[dict[str, Any]]) -> list[float]:
    return [item["score"] for item in sorted(ranked, key=lambda item: int(item["index"]))]


def test_labels_of_pairs(server: SeveralModels, expected: Expected) -> None:
    pairs = [[QUERY, text] for text in DOCUMENTS]
    predicted = ask(server, "/predict", inputs=pairs, model="classifier")
    scores = [{item["label"]: item["score"] for item in items} for items in predicted]
    found = [[each[name] for name in LABELS] for each in scores]
    close(found, softmax(expected("classifier")["logits"]))


def test_images_and_texts(server: SeveralModels, expected: Expected, folder: Path) -> None:
    files = [base64.b64encode((folder / name).read_bytes()).decode() for name in IMAGES]
    inputs = [*TEXTS[:3], *({"image": file} for file in files)]
    wanted = expected("clip")
    found = np.array(ask(server, "/embed", inputs=inputs, model="clip", normalize=True))
    close(found[:3], unit(wanted["texts"]))
    close(found[3:], unit(wanted["images"]))
    scores = ask(server, "/similarity", a=inputs[3:], b=TEXTS[:2], model="clip")["scores"]
    close(scores, found[3:] @ found[:2].T)


def test_tokens_and_spans(server: SeveralModels, expected: Expected) -> None:
    text = TEXTS[0]
    body = {"inputs": text, "model": "dense"}
    (result,) = ask(server, "/tokens", **body)["results"]
    states = np.array([token["embedding"] for token in result["tokens"]])
    close(unit(states.mean(axis=0)), expected("dense")["vectors"][0])
    assert [text[t["start"] : t["stop"]] for t in result["tokens"][1:-1]] == text.split()
    close(ask(server, "/embed_all", **body)[0], states)
    (spans,) = ask(server, "/tokens", **body, spans=[[[0, 11]]])["results"]
    close(spans["spans"][0]["embedding"], states[1:3].mean(axis=0))
    assert len(ask(server, "/tokenize", **body)[0]) == len(states)


def test_positions(server: SeveralModels) -> None:
    body = {"scheme": "rotary", "positions": [5], "dim": 4, "base": 100, "model": "dense"}
    content = ask(server, "/positions", **body)
    close(content["cos"], [[np.cos(5), np.cos(0.5)]])
    learned = ask(server, "/positions", positions=[0, 511], model="dense")
    assert np.shape(learned["vectors"]) == (2, 384)


def test_similarities(server: SeveralModels, expected: Expected) -> None:
    vectors = expected("dense")["vectors"]
    content = ask(server, "/similarity", a=TEXTS[0], b=TEXTS[1:], model="dense")
    close(np.ravel(content["scores"]), vectors[0] @ vectors[1:].T)
    nearest = ask(server, "/neighbors", inputs=TEXTS[0], candidates=TEXTS[1:], model="dense", k=1)
    assert nearest["neighbors"][0][0]["index"] == int(np.argmax(vectors[1:] @ vectors[0]))


def test_words(server: SeveralModels) -> None:
    table, king = vectors(), WORDS.index("king")
    (vector,) = ask(server, "/embed", inputs="the king", model="words", normalize=False)
    close(vector, table[: king + 1].mean(axis=0))
    found = ask(server, "/neighbors", inputs="king", k=3, model="words")["neighbors"][0]
    cosines = unit(table) @ unit(table[king])
    assert [item["text"] for item in found] == _nearest(cosines, {king})[:3]
    question = {"positive": ["king", "woman"], "negative": ["man"], "k": 2}
    found = ask(server, "/analogy", **question, model="words")["neighbors"]
    asked = [WORDS.index(word) for word in ("king", "woman", "man")]
    direction = unit(table)[asked] * np.array([[1], [1], [-1]])
    cosines = unit(table) @ unit(direction.mean(axis=0))
    assert [item["text"] for item in found] == _nearest(cosines, {*asked})[:2]


def _nearest(cosines: Floats, without: set[int]) -> list[str]:
    return [WORDS[i] for i in np.argsort(-cosines).tolist() if i not in without]


def test_a_table_of_token_vectors(server: SeveralModels) -> None:
    body = {"inputs": TEXTS[0], "model": "static"}
    (result,) = ask(server, "/tokens", **body)["results"]
    mean = np.mean([token["embedding"] for token in result["tokens"]], axis=0)
    close(ask(server, "/embed", **body, normalize=False)[0], mean)


def test_batches(server: SeveralModels, expected: Expected) -> None:
    lines = [
        {"custom_id": str(i), "method": "POST", "url": "/v1/embeddings", "body": body}
        for i, body in enumerate({"input": text, "model": "dense"} for text in TEXTS[:2])
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    uploaded = server.client.post(
        "/v1/files", files={"file": ("a.jsonl", content)}, data={"purpose": "batch"}
    )
    body = {"input_file_id": uploaded.json()["id"], "completion_window": "24h"}
    batch = ask(server, "/v1/batches", **body, endpoint="/v1/embeddings")
    path = f"/v1/batches/{batch['id']}"
    server.wait_until(lambda: server.client.get(path).json()["status"] == "completed")
    output = server.client.get(path).json()["output_file_id"]
    results = server.client.get(f"/v1/files/{output}/content").text.splitlines()
    bodies = [json.loads(line)["response"]["body"] for line in results]
    close([body["data"][0]["embedding"] for body in bodies], expected("dense")["vectors"][:2])


def test_a_model_without_an_output_says_so(server: SeveralModels) -> None:
    refused = server.post("/embed_sparse", {"inputs": "x", "model": "dense"})
    assert refused.status_code == 400 and error_of(refused)["code"] == "not_offered"
