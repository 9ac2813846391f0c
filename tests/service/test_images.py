"""Images in the requests of each API, against the vectors of the model itself."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from embedwell.cli.commands import main
from embedwell_models import Embedder
from embedwell_models.vectors import Floats, normalize
from tests.models.image_models import encoded, picture, write_siglip, write_siglip2
from tests.service.bulk.jobs import vectors_of
from tests.service.image_inputs import data_url
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer, error_of

TOKENS = 17  # of an image: 16 patches, and the class token
FILES = [encoded(picture(100, 200)), encoded(picture(300, 120, 1), "JPEG")]
TEXTS = ["a cat", "the license"]


def plain(data: bytes) -> str:
    return base64.b64encode(data).decode()


FIRST, SECOND = (data_url(data) for data in FILES)


def image_url(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*parts]}


@pytest.fixture(scope="module")
def expected(clip_folder: Path) -> Floats:
    """The unit vectors of two texts and two images."""
    embedder = Embedder.load(clip_folder, device="cpu", dtype="float32")
    return normalize(np.concatenate([embedder.embed(TEXTS), embedder.embed_images(FILES)]))


@pytest.fixture(scope="module")
def server(clip_folder: Path) -> Iterator[HttpServer]:
    with local_server(clip_folder, served_name="clip", max_image_pixels=1 << 16) as server:
        yield server


def embeddings(server: HttpServer, path: str, body: dict[str, Any]) -> Any:
    response = server.post(path, body)
    assert response.status_code == 200, response.text
    data = response.json()
    if "data" in data:
        return np.array([item["embedding"] for item in data["data"]])
    return np.array(data["embeddings"]["float"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "data:image/png;base64,"])
def test_line_breaks_in_base64_change_nothing(
    server: HttpServer, expected: Floats, start: str, end: str
) -> None:
    lines = base64.encodebytes(FILES[0]).decode().replace("\n", end)
    assert lines.count(end) > 2
    (found,) = vectors(server.post("/embed", {"inputs": {"image": start + lines}}))
    np.testing.assert_allclose(found, expected[2], atol=1e-6)


def test_texts_and_images_of_a_request_come_in_order(server: HttpServer, expected: Floats) -> None:
    inputs = [TEXTS[0], {"image": FIRST}, TEXTS[1], {"image": plain(FILES[1])}]
    found = vectors(server.post("/embed", {"inputs": inputs}))
    np.testing.assert_allclose(found, expected[[0, 2, 1, 3]], atol=1e-6)


def test_an_image_alone_has_the_same_vector(server: HttpServer, expected: Floats) -> None:
    (found,) = vectors(server.post("/embed", {"inputs": {"image": FIRST}}))
    inputs = [{"image": SECOND}, {"image": FIRST}, "x"]
    together = vectors(server.post("/embed", {"inputs": inputs}))
    assert found.tobytes() == together[1].tobytes()


@pytest.mark.parametrize(
    ("path", "body", "rows"),
    [
        ("/v1/embeddings", {"input": [{"text": TEXTS[0]}, {"image": FIRST}]}, [0, 2]),
        ("/v1/embeddings", {"input": {"image": plain(FILES[1])}}, [3]),
        ("/embeddings", {"input": [FIRST, SECOND], "modality": "image"}, [2, 3]),
        ("/embeddings", {"input": FIRST, "modality": "image"}, [2]),
        (
            "/v1/embeddings",
            {"input": [SECOND, TEXTS[1]], "modality": ["image", "text"]},
            [3, 1],
        ),
        ("/v2/embed", {"input_type": "image", "images": [SECOND, FIRST]}, [3, 2]),
        (
            "/v2/embed",
            {
                "input_type": "search_document",
                "inputs": [
                    {"content": [{"type": "image_url", "image_url": {"url": FIRST}}]},
                    {"content": [{"type": "text", "text": TEXTS[0]}]},
                ],
            },
            [2, 0],
        ),
        ("/v1/embeddings", {"messages": [message(image_url(FIRST))]}, [2]),
        ("/embeddings", {"messages": [message({"type": "text", "text": TEXTS[1]})]}, [1]),
        ("/v1/embeddings", {"messages": [{"role": "user", "content": TEXTS[1]}]}, [1]),
        (
            "/v1/multimodalembeddings",
            {
                "inputs": [
                    {"content": [{"type": "image_base64", "image_base64": FIRST}]},
                    {"content": [{"type": "text", "text": TEXTS[1]}]},
                    {"content": [{"type": "image_url", "image_url": SECOND}]},
                ]
            },
            [2, 1, 3],
        ),
    ],
    ids=str,
)
def test_every_api_takes_images(
    server: HttpServer, path: str, body: dict[str, Any], rows: list[int], expected: Floats
) -> None:
    found = embeddings(server, path, {"model": "clip", **body})
    np.testing.assert_allclose(found, expected[rows], atol=1e-6)


def test_cohere_returns_the_texts_of_a_mixed_request(server: HttpServer) -> None:
    content = [
        {"content": [{"type": "image_url", "image_url": {"url": FIRST}}]},
        {"content": [{"type": "text", "text": "a cat"}]},
    ]
    body = {"model": "clip", "input_type": "search_document", "inputs": content}
    assert server.post("/v2/embed", body).json()["texts"] == ["a cat"]


TEXT_PART = {"type": "text", "text": "a cat"}
PARTS = {"content": [TEXT_PART, image_url(FIRST)]}


@pytest.mark.parametrize(
    ("path", "body", "param", "index"),
    [
        ("/v1/embeddings", {"messages": [{"role": "user", **PARTS}]}, "messages", 0),
        ("/v2/embed", {"inputs": [{"content": [TEXT_PART]}, PARTS]}, "inputs", 1),
        (
            "/v1/multimodalembeddings",
            {"inputs": [{"content": [TEXT_PART]}, {"content": [TEXT_PART, TEXT_PART]}]},
            *("inputs", 1),
        ),
    ],
)
def test_an_input_of_several_parts_is_refused_by_the_models_name(
    server: HttpServer, path: str, body: dict[str, Any], param: str, index: int
) -> None:
    response = server.post(path, {"model": "clip", **body})
    assert response.status_code == 400
    fault = error_of(response)
    assert (fault["code"], fault["param"], fault["index"]) == ("not_offered", param, index)
    assert (
        f"input {index} has" in fault["message"] and "the model 'clip' embeds" in fault["message"]
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"messages": [message(image_url("https://example.com/a.png"))]}),
        (
            "/v1/multimodalembeddings",
            {"inputs": [{"content": [{"type": "image_url", "image_url": "http://a.org/a.png"}]}]},
        ),
    ],
)
def test_no_api_fetches_an_image(server: HttpServer, path: str, body: dict[str, Any]) -> None:
    fault = error(server.post(path, body), 400)
    assert (fault["code"], fault["index"]) == ("invalid_image", 0)
    assert "does not fetch" in fault["message"]


def test_cohere_takes_one_of_texts_images_and_inputs(server: HttpServer) -> None:
    body = {"model": "clip", "input_type": "image", "images": [FIRST], "texts": ["a"]}
    message = error_message(server, "/v2/embed", body)
    assert message == "give exactly one of texts, images and inputs"


def test_dense_outputs_are_those_of_texts_and_images(server: HttpServer, expected: Floats) -> None:
    body = {"inputs": [{"image": FIRST}, TEXTS[0]], "outputs": ["dense"]}
    content = server.post("/embed", body).json()
    np.testing.assert_allclose(content["embeddings"], expected[[2, 0]], atol=1e-6)
    assert [item["tokens"] for item in content["inputs"]] == [TOKENS, 6]


def test_images_are_compared_with_texts(server: HttpServer, expected: Floats) -> None:
    body = {"a": TEXTS, "b": [{"image": FIRST}, "a cat", {"image": SECOND}], "details": True}
    content = server.post("/similarity", body).json()
    cosines = expected[:2] @ expected[[2, 0, 3]].T
    np.testing.assert_allclose(content["scores"], cosines, atol=1e-6)
    assert [item["tokens"] for item in content["inputs"]["b"]] == [TOKENS, 6, TOKENS]
    alone = server.post("/similarity", {"a": {"image": FIRST}, "b": TEXTS[0]}).json()
    np.testing.assert_allclose(alone["scores"], [[expected[2] @ expected[0]]], atol=1e-6)


def test_an_image_counts_as_its_patches(server: HttpServer, clip_folder: Path) -> None:
    body = {"inputs": [{"image": FIRST}, "a cat"], "details": True}
    response = server.post("/embed", body)
    content = response.json()
    assert [item["tokens"] for item in content["inputs"]] == [TOKENS, 6]
    assert content["usage"] == {"texts": 2, "tokens": TOKENS + 6}
    assert response.headers["x-tokens"] == str(TOKENS + 6)
    with local_server(clip_folder, max_tokens=2 * TOKENS) as limited:
        images = [{"image": FIRST}] * 3
        assert limited.post("/embed", {"inputs": images[:2]}).status_code == 200
        fault = error(limited.post("/embed", {"inputs": images}), 413)
        assert fault["code"] == "too_many_tokens"


def error_message(server: HttpServer, path: str, body: dict[str, Any]) -> str:
    response = server.post(path, body)
    assert response.status_code == 400, response.text
    message: str = response.json()["message"]
    return message


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("https://example.com/cat.png", "does not fetch"),
        ("HTTP://127.0.0.1/cat.png", "does not fetch"),
        ("file:///etc/passwd", "does not fetch"),
        ("data:image/png,abcd", "neither base64 nor a data URL with base64"),
        ("not base64", "neither base64 nor a data URL with base64"),
        ("", "none of the formats"),
        (plain(b"GIF"), "none of the formats PNG, JPEG, WEBP, GIF"),
        (plain(encoded(picture(32, 32), "BMP")), "none of the formats"),
        (plain(FILES[0][: len(FILES[0]) // 2]), "damaged or incomplete"),
        (plain(encoded(picture(257, 256))), "257 x 256 pixels, the limit is 65536"),
    ],
    ids=range(10),
)
def test_an_image_that_cannot_be_read_is_refused_by_its_index(
    server: HttpServer, image: str, message: str
) -> None:
    body = {"inputs": ["a", {"image": FIRST}, {"image": image}]}
    fault = error(server.post("/embed", body), 400)
    assert (fault["code"], fault["index"]) == ("invalid_image", 2)
    assert message in fault["error"]


def test_a_partial_request_embeds_the_other_images(server: HttpServer, expected: Floats) -> None:
    body = {"inputs": ["a cat", {"image": "?"}, {"image": FIRST}], "partial": True}
    first, second, third = server.post("/embed", body).json()["results"]
    np.testing.assert_allclose(first["embedding"], expected[0], atol=1e-6)
    assert (second["error"]["code"], second["error"]["index"]) == ("invalid_image", 1)
    np.testing.assert_allclose(third["embedding"], expected[2], atol=1e-6)


def test_an_image_goes_with_a_text_in_windows(server: HttpServer, expected: Floats) -> None:
    body = {"inputs": [{"image": FIRST}, "you " * 200, "a cat"], "on_overflow": "mean"}
    found = vectors(server.post("/embed", body))
    np.testing.assert_allclose(found[[0, 2]], expected[[2, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed_all", {"inputs": [{"image": FIRST}]}),
        ("/v1/embeddings", {"input": [{"image": FIRST}], "return_multivector": True}),
        ("/embed", {"inputs": [{"image": FIRST}], "late_chunking": True}),
    ],
)
def test_an_image_has_one_vector(server: HttpServer, path: str, body: dict[str, Any]) -> None:
    fault = error(server.post(path, body), 400)
    assert fault["code"] in ("not_offered", "invalid_request")


def test_the_same_image_is_computed_once(clip_folder: Path) -> None:
    with local_server(clip_folder, vector_cache_bytes=1 << 20) as server:
        for cached in ("0", "2"):
            inputs = [{"image": FIRST}, "a cat"]
            response = server.post("/embed", {"inputs": inputs})
            assert response.headers["x-cached"] == cached
        again = server.post("/embed", {"inputs": [{"image": SECOND}, {"image": FIRST}]})
        assert again.headers["x-cached"] == "1"
        assert vectors(again)[1].tobytes() == vectors(response)[0].tobytes()


def test_info_tells_of_images(server: HttpServer) -> None:
    info = server.client.get("/info").json()
    assert info["modalities"] == ["text", "image"]
    assert info["engine"]["image_dtype"] == "float32"
    assert info["limits"]["max_image_pixels"] == 1 << 16


@pytest.mark.parametrize("write", [write_siglip, write_siglip2])
def test_a_siglip_embeds_texts_and_images(write: Callable[[Path], Any], tmp_path: Path) -> None:
    write(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    both = np.concatenate([embedder.embed(TEXTS), embedder.embed_images(FILES)])
    with local_server(tmp_path) as server:
        images = [{"image": FIRST}, {"image": SECOND}]
        found = vectors(server.post("/embed", {"inputs": [*TEXTS, *images]}))
    np.testing.assert_allclose(found, normalize(both), atol=1e-6)


@pytest.mark.full
def test_the_examples_of_the_page_run(server: HttpServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    [shell] = [
        block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in block
    ]
    image, *commands = shell.replace("localhost:8080", server.url).splitlines()
    assert len(commands) == 5
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", f"{image}\n{command}"], capture_output=True, check=True
        )
        content = json.loads(done.stdout)
        assert isinstance(content, list) or not content.keys() & {"error", "message"}, content


@pytest.mark.full
@pytest.mark.parametrize("index", range(3))
def test_the_programs_of_the_page_run(server: HttpServer, tmp_path: Path, index: int) -> None:
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    programs = [program for program in programs if "localhost" in program]
    assert len(programs) == 3
    (tmp_path / "cat.jpg").write_bytes(FILES[1])
    program = programs[index].replace("http://localhost:8080", server.url)
    program += "assert len(vectors[0]) == 24"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


@pytest.mark.full
def test_the_commands_of_the_page_embed_many_images(
    clip_folder: Path, expected: Floats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    (tmp_path / "album").mkdir()
    (tmp_path / "album" / "cat.jpg").write_bytes(FILES[1])
    (tmp_path / "album" / "list.csv").write_text("file\ncat.jpg\n")
    pq.write_table(pa.table({"id": [1, 2], "image": FILES}), tmp_path / "photos.parquet")
    monkeypatch.chdir(tmp_path)
    name = "sentence-transformers/clip-ViT-B-32"
    commands = re.findall(rf"^embedwell (embed .* {name})$", page, re.MULTILINE)
    for command in commands:
        arguments = command.replace(name, str(clip_folder)).split()
        result = CliRunner().invoke(main, [*arguments, "--dtype", "float32"])
        assert result.exit_code == 0, result.output
    for name, rows in (("vectors", [2, 3]), ("album-vectors", [3])):
        found = vectors_of(pq.read_table(name))
        np.testing.assert_allclose(normalize(found), expected[rows], atol=1e-6)
