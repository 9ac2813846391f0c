"""Inputs of texts and images in the requests of each API, against the model's own vectors."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.vectors import Floats
from tests.models import embedding_gemma2
from tests.models.image_models import encoded, picture
from tests.models.qwen3_vl import OF_KERNELS, PROCESSOR, save, write_qwen3_vl
from tests.service.image_inputs import content, data_url, image
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

WIDE, SMALL = encoded(picture(150, 60)), encoded(picture(40, 70, 1), "JPEG")
TEXT = "the license"
CONTENTS: list[list[str | bytes]] = [[TEXT], [WIDE], [SMALL, TEXT], [TEXT, WIDE, "any", SMALL]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("qwen3_vl")
    write_qwen3_vl(path, max_length=256, **OF_KERNELS)
    save(path, "preprocessor_config.json", PROCESSOR)
    return path


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def expected(embedder: Embedder) -> Floats:
    return embedder.embed_contents(CONTENTS)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    settings: dict[str, Any] = {"max_image_pixels": 1 << 17, "vector_cache_bytes": 1 << 20}
    with local_server(folder, served_name="qwen", **settings) as server:
        yield server


def test_embed_takes_texts_images_and_both(server: HttpServer, expected: Floats) -> None:
    inputs = [TEXT, image(WIDE), content(CONTENTS[2]), content(CONTENTS[3])]
    found = vectors(server.post("/embed", {"inputs": inputs}))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for item, vector in zip(inputs, found, strict=True):
        (alone,) = vectors(server.post("/embed", {"inputs": item}))
        assert alone.tobytes() == vector.tobytes()
    body = {"inputs": [*inputs, {"image": "data:"}], "partial": True}
    results = server.post("/embed", body).json()["results"]
    np.testing.assert_allclose([r["embedding"] for r in results[:4]], expected, atol=1e-6)
    assert results[4]["error"]["code"] == "invalid_image"


@pytest.mark.full
def test_the_examples_of_the_page_run(server: HttpServer, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    body, *_ = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    inputs = json.loads(body.replace("data:…", data_url(WIDE)))
    assert len(vectors(server.post("/embed", inputs))) == 3
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [program] = [program for program in programs if "Qwen3-VL" in program]
    program = program.replace("Qwen/Qwen3-VL-Embedding-2B", str(folder))
    names: dict[str, Any] = {"image": WIDE}
    exec(program, names)
    assert names["vectors"].shape == (3, 64)


def test_an_instruction_precedes_texts_and_images(server: HttpServer, embedder: Embedder) -> None:
    found = vectors(
        server.post("/embed", {"inputs": [content(CONTENTS[2]), TEXT], "prompt": "Find it."})
    )
    expected = embedder.embed_contents([CONTENTS[2], [TEXT]], prompt="Find it.")
    np.testing.assert_allclose(found, expected, atol=1e-6)


def voyage(part: str | bytes) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_base64", "image_base64": data_url(part)}


def test_every_api_takes_several_parts(server: HttpServer, expected: Floats) -> None:
    for parts, vector in zip(CONTENTS, expected, strict=True):
        messages = [{"role": "user", **content(parts)}]
        response = server.post("/v1/embeddings", {"model": "qwen", "messages": messages})
        found = response.json()["data"][0]["embedding"]
        np.testing.assert_allclose(found, vector, atol=1e-6)
    body = {"model": "qwen", "inputs": [content(parts) for parts in CONTENTS]}
    response = server.post("/v2/embed", {**body, "input_type": "search_document"})
    found = response.json()["embeddings"]["float"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    inputs = [{"content": [*map(voyage, parts)]} for parts in CONTENTS]
    response = server.post("/v1/multimodalembeddings", {"model": "qwen", "inputs": inputs})
    found = [item["embedding"] for item in response.json()["data"]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    usage = response.json()["usage"]
    assert usage["image_pixels"] == 2 * (160 * 64 + 64 * 96)
    images = usage["image_pixels"] // 32**2
    assert usage["total_tokens"] == usage["text_tokens"] + images


ASKED = {"role": "system", "content": [{"type": "text", "text": "Find it."}]}
REPLY = {"role": "assistant", "content": [{"type": "text", "text": ""}]}


@pytest.mark.parametrize("path", ["/v1/embeddings", "/pooling"])
def test_a_conversation_has_an_instruction_and_the_start_of_a_reply(
    server: HttpServer, embedder: Embedder, path: str
) -> None:
    [expected] = embedder.embed_contents([CONTENTS[2]], prompt="Find it.")
    user = {"role": "user", **content(CONTENTS[2])}
    body = {"model": "qwen", "messages": [ASKED, user, REPLY]}
    if path == "/pooling":
        body["task"], key = "embed", "data"
    else:
        key = "embedding"
    for options in ({"continue_final_message": True}, {"add_generation_prompt": True}, {}):
        response = server.post(path, {**body, **options, "add_special_tokens": True})
        np.testing.assert_allclose(response.json()["data"][0][key], expected, atol=1e-6)

    def refusal(**changed: Any) -> str:
        return str(error(server.post(path, {**body, **changed}), 400)["message"])

    both = dict.fromkeys(("continue_final_message", "add_generation_prompt"), True)
    assert refusal(**both).startswith("Cannot set both `continue_final_message` and")
    for messages in ([user, ASKED], [user, REPLY, user], [user, {**REPLY, **content([TEXT])}], []):
        assert "'qwen' reads one message of the user, with" in refusal(messages=messages)
    assert "it; send these alone" in refusal(messages=[{**ASKED, **content([WIDE])}, user])


def test_details_count_tokens_of_texts_and_images(server: HttpServer, embedder: Embedder) -> None:
    body = {"inputs": [TEXT, content(CONTENTS[2])], "details": True}
    (text, both) = server.post("/embed", body).json()["inputs"]
    assert text["tokens"] == len(embedder.tokenize(TEXT))
    assert both["tokens"] == text["tokens"] + 6 + 2  # of the image, and around it


def test_inputs_that_do_not_fit_are_refused(server: HttpServer) -> None:
    def refusal(**body: Any) -> dict[str, Any]:
        return error(server.post("/embed", body), 400)

    marked = content([SMALL, "<|image_pad|>"])
    fault = refusal(inputs=["a", marked])
    assert (fault["code"], fault["index"]) == ("input_too_long", 1)
    assert "has the token" in fault["message"]
    many = content([WIDE] * 40)
    assert "400 tokens, of which" in refusal(inputs=[many])["message"]
    large = image(encoded(picture(400, 400)))
    assert "the limit is 131072" in refusal(inputs=large)["message"]
    assert refusal(inputs=[content([SMALL, TEXT])], outputs=["sparse"])["code"] == "not_offered"


def test_other_media_are_refused_with_advice(server: HttpServer) -> None:
    for kind in ("video_url", "input_audio"):
        other = {"content": [{"type": "text", "text": TEXT}, {"type": kind}]}
        for path, body in (
            ("/embed", {"inputs": [other]}),
            ("/v1/embeddings", {"model": "qwen", "messages": [{"role": "user", **other}]}),
        ):
            message = error(server.post(path, body), 400)["message"]
            assert kind in message and "send a video's frames as images" in message


def test_embedding_gemma2_is_served_with_images(tmp_path: Path) -> None:
    embedding_gemma2.write_images_model(tmp_path, **embedding_gemma2.OF_KERNELS)
    expected = Embedder.load(tmp_path, device="cpu", dtype="float32").embed_contents(CONTENTS)
    with local_server(tmp_path, served_name="gemma") as server:
        inputs = [TEXT, image(WIDE), content(CONTENTS[2]), content(CONTENTS[3])]
        found = vectors(server.client.post("/embed", json={"inputs": inputs}))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        for parts, vector in zip(CONTENTS, expected, strict=True):
            messages = [{"role": "user", **content(parts)}]
            body = {"model": "gemma", "messages": messages}
            (item,) = server.client.post("/v1/embeddings", json=body).json()["data"]
            np.testing.assert_allclose(item["embedding"], vector, atol=1e-6)


def test_the_server_says_that_it_reads_images(server: HttpServer) -> None:
    info = server.client.get("/info").json()
    assert info["modalities"] == ["text", "image"]
    assert info["engine"]["image_dtype"] == "float32"
