"""A server of Llama Nemotron Embed VL: texts, images and both, by role."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder
from tests.models.image_models import encoded, picture
from tests.models.nemotron_vl import write_nemotron_vl
from tests.service.image_inputs import content, data_url, image
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

WIDE, SMALL, TEXT = encoded(picture(150, 60)), encoded(picture(40, 70, 1), "JPEG"), "the license"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nemotron")
    write_nemotron_vl(path)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="nemotron", max_image_pixels=1 << 17) as server:
        yield server


def test_texts_images_and_both_have_the_vectors_of_the_library(
    server: HttpServer, folder: Path
) -> None:
    inputs = [TEXT, image(WIDE), content([SMALL, TEXT])]
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    contents: list[list[str | bytes]] = [[TEXT], [WIDE], [SMALL, TEXT]]
    for role in ("query", "document"):
        found = vectors(server.post("/embed", {"inputs": inputs, "input_type": role}))
        expected = embedder.embed_contents(contents, prompt_name=role)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_examples_of_the_page_run(server: HttpServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    section = page.split("### Llama Nemotron Embed VL")[1].split("## ")[0]
    bodies = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    inputs = [json.loads(body.replace("data:…", data_url(WIDE))) for body in bodies]
    assert [len(vectors(server.post("/embed", each))) for each in inputs] == [1, 2]


def test_large_images_are_refused(server: HttpServer) -> None:
    fault = error(
        server.post("/embed", {"inputs": ["a", image(encoded(picture(400, 400)))]}),
        400,
    )
    assert fault["code"] == "invalid_image" and fault["index"] == 1
    fault = error(server.post("/embed", {"inputs": content([WIDE] * 40)}), 400)
    assert fault["code"] == "input_too_long"


def test_a_tile_counts_as_its_tokens(server: HttpServer, folder: Path) -> None:
    usage = server.post("/v1/embeddings", {"input": [image(WIDE)], "model": "nemotron"})
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    assert embedder.patches is not None
    pixels = embedder.patches.pixels(WIDE, 1 << 17)
    (ids,) = embedder.tokenize([embedder.patches.text([pixels])])
    assert usage.json()["usage"]["prompt_tokens"] == len(ids)
    assert embedder.patches.tokens(pixels) in range(4, len(ids))
