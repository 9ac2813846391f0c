"""A model with enormous weights: vectors and scores are finite, or the response is an error."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models import Embedder
from embedwell_models.vectors import Floats
from tests.conftest import Folder
from tests.models.tiny import LETTERS
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

TEXTS = [f"{a} {b}" for a in LETTERS for b in LETTERS]

ScaledModel = tuple[HttpServer, str, str, str, Floats]


def scale(folder: Path, factor: float) -> None:
    """Multiply every vector of the model by a factor."""
    tensors = load_file(folder / "model.safetensors")
    for part in ("weight", "bias"):
        tensors[f"encoder.layer.2.output.LayerNorm.{part}"] *= np.float32(factor)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


@pytest.fixture(scope="module", params=["float16"])
def scaled_model(request: pytest.FixtureRequest, tiny_bert: Folder) -> Iterator[ScaledModel]:
    """A server, a number type, a text whose vector overflows it, a text whose vector does not.

    Last, the unit vector of the second text, from before the scaling.
    """
    dtype: str = request.param
    folder = tiny_bert({"1_Pooling/config.json": {"pooling_mode": "cls"}})
    path = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{path}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{path}.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    peaks = np.abs(embedder.embed(TEXTS)).max(axis=1)
    large, small = TEXTS[peaks.argmax()], TEXTS[peaks.argmin()]
    ids = embedder.tokenize([small])
    unit = embedder.encode(ids, normalized=True)
    heartbeat = np.abs(embedder.encode([[0, 0]], normalized=False)).max()
    assert heartbeat < peaks.max()
    scale(folder, np.finfo(dtype).max / np.sqrt(peaks.max() * max(heartbeat, peaks.min())))
    with local_server(folder) as server:
        yield server, dtype, large, small, unit


def test_a_vector_near_the_largest_number_is_normalized_to_length_one(
    scaled_model: ScaledModel,
) -> None:
    server, _, _, small, unit = scaled_model
    np.testing.assert_allclose(vectors(server.post("/embed", {"inputs": small})), unit, atol=1e-6)
    body = {"a": small, "b": small}
    assert server.post("/similarity", body).json()["scores"] == [[pytest.approx(1)]]


def test_a_vector_beyond_the_number_type_is_an_error_with_the_index(
    scaled_model: ScaledModel,
) -> None:
    server, dtype, large, small, _ = scaled_model
    body = {"inputs": [small, large], "normalize": False, "output_dtype": dtype}
    response = server.post("/embed", body)
    assert response.headers["x-should-retry"] == "false"
    failure = error(response, 500)
    assert (failure["code"], failure["index"], failure["error_type"]) == (
        "not_finite",
        1,
        "Backend",
    )
    body["inputs"] = [[1 << 30], small, large]
    partial = server.post("/embed", {**body, "partial": True}).json()
    unknown, good, bad = partial["results"]
    assert bad["error"]["code"] == "not_finite" and bad["error"]["index"] == 2
    assert np.isfinite(good["embedding"]).all()
    assert unknown["error"]["index"] == 0 and partial["failed"] == 2


def test_token_vectors_and_scores_are_finite_or_an_error(scaled_model: ScaledModel) -> None:
    server, dtype, large, small, _ = scaled_model
    responses = [
        server.post("/tokens", {"inputs": ["a", large], "output_dtype": dtype}),
        server.post("/tokens", {"inputs": small, "spans": [[[0, len(small)]]]}),
        server.post("/similarity", {"a": small, "b": small, "metric": "dot"}),
        server.post("/similarity", {"a": small, "b": large, "metric": "euclidean"}),
        server.post("/similarity", {"inputs": {"source_sentence": small, "sentences": [large]}}),
    ]
    for response in responses:
        if response.status_code == 200:
            assert "null" not in re.sub(r'"\w+":null', "", response.text)
        else:
            assert response.json()["code"] == "not_finite"
    assert 500 in [response.status_code for response in responses]
