"""A server of GME: texts, images and both, within its limits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder
from tests.models.image_models import encoded, picture
from tests.models.qwen2_vl import OF_KERNELS, write_gme
from tests.service.image_inputs import content, image
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

WIDE, SMALL, TEXT = encoded(picture(150, 60)), encoded(picture(40, 70, 1), "JPEG"), "the license"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gme")
    write_gme(path, **OF_KERNELS)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="gme", max_image_pixels=1 << 17) as server:
        yield server


def test_texts_images_and_both_have_the_vectors_of_the_library(
    server: HttpServer, folder: Path
) -> None:
    inputs = [TEXT, image(WIDE), content([SMALL, TEXT])]
    found = vectors(server.post("/embed", {"inputs": inputs, "prompt": "Find it."}))
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    contents: list[list[str | bytes]] = [[TEXT], [WIDE], [SMALL, TEXT]]
    expected = embedder.embed_contents(contents, prompt="Find it.")
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_large_images_are_refused(server: HttpServer) -> None:
    large = image(encoded(picture(400, 400)))
    fault = error(server.post("/embed", {"inputs": ["a", large]}), 400)
    assert fault["code"] == "invalid_image" and fault["index"] == 1
    assert "the limit is 131072" in fault["message"]
    many = content([WIDE] * 40)
    fault = error(server.post("/embed", {"inputs": many}), 400)
    assert fault["code"] == "input_too_long"
