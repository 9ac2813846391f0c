"""Python clients that send images to a server of a CLIP."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cohere
import numpy as np
import openai
import pytest
from infinity_client import Client as InfinityClient
from infinity_client.api.default import embeddings
from infinity_client.models import OpenAIEmbeddingInputImage, OpenAIEmbeddingInputText
from infinity_client.vision_client import InfinityVisionAPI
from openai.types import CreateEmbeddingResponse
from PIL import Image
from voyageai.client import Client as VoyageClient
from voyageai.error import InvalidRequestError

from embedwell_models import Embedder
from embedwell_models.vectors import Floats, normalize
from tests.models.image_models import SIDE, encoded, picture
from tests.service.local_server import local_server
from tests.service.server import HttpServer

PICTURES = [picture(100, 200), picture(300, 120, 1)]
FILES = [encoded(image, "JPEG") for image in PICTURES]
URLS = [f"data:image/jpeg;base64,{base64.b64encode(data).decode()}" for data in FILES]
TEXT = "a cat"


@pytest.fixture(scope="module")
def server(clip_folder: Path) -> Iterator[HttpServer]:
    with local_server(clip_folder, served_name="clip") as server:
        yield server


@pytest.fixture(scope="module")
def expected(clip_folder: Path) -> Floats:
    """The unit vectors of the pictures and the text."""
    embedder = Embedder.load(clip_folder, device="cpu", dtype="float32")
    return normalize(np.concatenate([embedder.embed_images(FILES), embedder.embed([TEXT])]))


def assert_equal(found: Any, expected: Floats) -> None:
    np.testing.assert_allclose(np.array(found), expected, atol=1e-6)


def test_cohere_embeds_images(server: HttpServer, expected: Floats) -> None:
    with cohere.ClientV2("unused", base_url=server.url, max_retries=0) as client:
        response = client.embed(model="clip", input_type="image", images=URLS)
        assert_equal(response.embeddings.float_, expected[:2])
        assert response.meta is not None and response.meta.billed_units is not None
        assert response.meta.billed_units.input_tokens == 2 * 17
        with pytest.raises(cohere.BadRequestError) as error:
            client.embed(model="clip", input_type="image", images=["https://example.com/a.png"])
        assert "does not fetch" in error.value.body["message"]


def test_cohere_embeds_texts_and_images_of_a_request(server: HttpServer, expected: Floats) -> None:
    inputs: Any = [
        {"content": [{"type": "text", "text": TEXT}]},
        {"content": [{"type": "image_url", "image_url": {"url": URLS[1]}}]},
    ]
    with cohere.ClientV2("unused", base_url=server.url, max_retries=0) as client:
        response = client.embed(model="clip", input_type="search_document", inputs=inputs)
    assert_equal(response.embeddings.float_, expected[[2, 1]])


def test_infinity_embeds_images_and_texts(server: HttpServer, expected: Floats) -> None:
    with InfinityClient(base_url=server.url, raise_on_unexpected_status=True) as client:
        bodies: list[Any] = [
            OpenAIEmbeddingInputImage(input_=URLS, model="clip"),
            OpenAIEmbeddingInputText(input_=[TEXT], model="clip"),
        ]
        responses: list[Any] = [embeddings.sync(client=client, body=body) for body in bodies]
    found = [item.embedding for response in responses for item in response.data]
    assert_equal(found, expected)


def test_infinitys_client_of_pictures_embeds_them(server: HttpServer, expected: Floats) -> None:
    client = InfinityVisionAPI(server.url, model="clip")
    found, tokens = client.image_embed("clip", PICTURES).result()
    assert tokens == 2 * 17
    assert_equal(np.concatenate(found), expected[:2])  # the client encodes as these files are


def test_openai_embeds_a_message_with_an_image(server: HttpServer, expected: Floats) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        for part, row in (
            ({"type": "image_url", "image_url": {"url": URLS[0]}}, 0),
            ({"type": "image_url", "image_url": {"url": URLS[1], "detail": "auto"}}, 1),
            ({"type": "text", "text": TEXT}, 2),
        ):
            response = client.post(  # as vLLM's documentation calls it
                "/embeddings",
                cast_to=CreateEmbeddingResponse,
                body={"model": "clip", "messages": [{"role": "user", "content": [part]}]},
            )
            assert_equal([item.embedding for item in response.data], expected[[row]])


def test_voyage_embeds_pictures_and_texts(server: HttpServer, expected: Floats) -> None:
    client = VoyageClient("unused", base_url=f"{server.url}/v1")
    decoded = [Image.open(io.BytesIO(data)) for data in FILES]  # which the client sends lossless
    inputs: list[Any] = [[decoded[1]], [TEXT], [decoded[0]]]
    response = client.multimodal_embed(inputs, model="clip")
    assert_equal(response.embeddings, expected[[1, 2, 0]])
    assert response.total_tokens == 2 * 17 + response.text_tokens
    assert (response.image_pixels, response.video_pixels) == (2 * SIDE**2, 0)
    parts: list[Any] = [{"content": [{"type": "image_url", "image_url": URLS[0]}]}]
    assert_equal(client.multimodal_embed(parts, model="clip").embeddings, expected[:1])
    several: list[Any] = [[TEXT, decoded[0]]]
    with pytest.raises(InvalidRequestError, match="input 0 has 2 parts of content"):
        client.multimodal_embed(several, model="clip")
