"""The Python examples of the pages about clients, each with some more uses of its client."""

import re
from typing import Any

import numpy as np
import pytest

from embedwell.routes.cohere import CohereRequest, CohereV1Request
from embedwell.routes.common.body import Body
from embedwell.routes.ollama import OllamaPromptRequest, OllamaRequest
from embedwell_models import Embedder
from embedwell_vendors.embeddings import EmbeddingsRequest
from tests.clients.conftest import PROMPTS
from tests.clients.example_program import DOCS, run_program
from tests.service.server import HttpServer, Server

TEXTS = ["A first text.", "Ein zweiter Text."]
PAGE = (DOCS / "clients.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^## ([^\n]*)\n\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
API = (DOCS / "api.md").read_text(encoding="utf-8")
OWN_CLIENT = (DOCS / "python.md").read_text(encoding="utf-8")
EXAMPLES += [("embedwell", OWN_CLIENT.split("```python\n")[1].split("```")[0])]

# Further ways of a client to embed the two texts, appended to its example.
FURTHER_USES = {
    "Hugging Face": """
import asyncio
from huggingface_hub import AsyncInferenceClient

async def embed():
    async with AsyncInferenceClient("http://localhost:8080") as client:
        return [(await client.feature_extraction(text))[0] for text in TEXTS]

assert len(scores) == 2 and 0.7 < scores[0] < 0.72
vectors = [vectors, asyncio.run(embed())]
""",
    "LangChain": """
import asyncio

assert found.page_content == "Iron oxide."
vectors = [vectors, [client.embed_query(text) for text in TEXTS]]
vectors += [asyncio.run(client.aembed_documents(TEXTS))]
""",
    "LlamaIndex": """
import asyncio
from llama_index.embeddings.openai import OpenAIEmbedding

options = {"api_base": "http://localhost:8080/v1", "api_key": "unused"}
openai_class = OpenAIEmbedding(model_name="all-MiniLM-L6-v2", **options)
for client in (tei, openai, openai_class):
    vectors += [[client.get_query_embedding(text) for text in TEXTS]]
    vectors += [asyncio.run(client.aget_text_embedding_batch(TEXTS))]
""",
    "Haystack": """
from haystack.components.embedders import OpenAITextEmbedder
from haystack_integrations.components.embedders.huggingface_api import HuggingFaceAPITextEmbedder

url = {"url": "http://localhost:8080"}
text_embedders = [
    HuggingFaceAPITextEmbedder(tei.api_type, api_params=url, normalize=True),
    OpenAITextEmbedder(openai.api_key, openai.model, api_base_url=openai.api_base_url),
]
vectors += [[client.run(text)["embedding"] for text in TEXTS] for client in text_embedders]
""",
    "Chroma": """
vectors += [[client.embed_query([text])[0] for text in TEXTS] for client in (tei, openai)]
""",
    "LiteLLM": """
def embed(name, base="http://localhost:8080/v1", texts=TEXTS, **options):
    return litellm.embedding(name, texts, api_base=base, api_key="unused", **options)

names = ["hosted_vllm/tei", "voyage/tei", "litellm_proxy/tei", "nvidia_nim/tei", "mistral/tei"]
responses = [embed(name) for name in names]
responses += [embed("infinity/tei", "http://localhost:8080")]
responses += [embed("cohere/all-MiniLM-L6-v2", "http://localhost:8080/v2/embed")]
vectors = [vectors, *([row["embedding"] for row in response.data] for response in responses)]

for kind, expected, arguments in [
    (litellm.NotFoundError, "no model 'another'", {"name": "openai/another"}),
    (
        litellm.ContextWindowExceededError,
        "maximum context length is 256 tokens",
        {"name": "openai/tei", "texts": ["word " * 600], "truncate": False},
    ),
    (litellm.BadRequestError, "'query', 'document'", {"name": "openai/tei", "input_type": "b"}),
]:
    assert expected in error_message(kind, lambda: embed(**arguments))
""",
    "Mistral": """
from mistralai.client.errors import SDKError

with Mistral(api_key="unused", server_url="http://localhost:8080") as client:
    arguments = {"model": "another", "inputs": TEXTS}
    message = error_message(SDKError, lambda: client.embeddings.create(**arguments))
    assert "no model 'another'" in message
""",
    "Pydantic AI": """
from pydantic_ai.exceptions import ModelHTTPError

other = Embedder(OpenAIEmbeddingModel("another", provider=provider))
assert "no model 'another'" in error_message(ModelHTTPError, lambda: other.embed_query_sync("a"))
vectors = [vectors, [embedder.embed_query_sync(text).embeddings[0] for text in TEXTS]]
""",
    "mem0": """
import openai

def create(provider, **config):
    return EmbedderFactory.create(provider, config, None)

base, url = "http://localhost:8080/v1", "http://localhost:8080"
clients = [
    create("openai", model="tei", api_key="unused", openai_base_url=base, embedding_dims=384),
    create("huggingface", huggingface_base_url=base),  # it sends the name tei
    create("lmstudio", model="all-MiniLM-L6-v2", lmstudio_base_url=base),
    create("ollama", model="all-MiniLM-L6-v2", ollama_base_url=url),
]
vectors = [vectors, *(client.embed_batch(TEXTS) for client in clients)]
vectors += [[client.embed(text) for text in TEXTS] for client in clients]
other = create("openai", model="another", api_key="unused", openai_base_url=base)
assert "no model 'another'" in error_message(openai.NotFoundError, lambda: other.embed("a"))

import os
import numpy
os.environ["CO_API_URL"] = url  # which Cohere's client reads at its import
from mem0.utils.factory import RerankerFactory

ranker = RerankerFactory.create("cohere", {"model": "all-MiniLM-L6-v2", "api_key": "unused"})
ranking = ranker.rerank(TEXTS[0], [{"memory": text} for text in TEXTS[::-1]])
assert [row["memory"] for row in ranking] == TEXTS
cosines = numpy.dot(vectors[-1], vectors[-1][0])  # a dense model's scores
assert numpy.allclose([row["rerank_score"] for row in ranking], cosines, atol=1e-5)
""",
    "txtai": """
import litellm

options = {"method": client.config["method"], "vectors": client.config["vectors"]}
other = Embeddings(path="openai/another", **options)
message = error_message(litellm.NotFoundError, lambda: other.batchtransform(TEXTS))
assert "no model 'another'" in message
""",
    "Infinity": """
from infinity_client.api.default import models
from infinity_client.errors import UnexpectedStatus

base = {"base_url": "http://localhost:8080", "raise_on_unexpected_status": True}
with Client(**base) as client:
    model = models.sync(client=client).data[0]
    assert model.id == "all-MiniLM-L6-v2"
    body = OpenAIEmbeddingInputText(input_=TEXTS, model="another")
    message = error_message(UnexpectedStatus, lambda: embeddings.sync(client=client, body=body))
    assert "no model 'another'" in message
""",
}


def run(server: HttpServer, code: str) -> Any:
    """The value of `vectors` at the end of a program."""
    return run_program(
        server,
        f"TEXTS = {TEXTS}\n{code}\nimport numpy",
        "numpy.asarray(vectors, dtype='f8').tolist()",
    )


@pytest.mark.parametrize(("name", "code"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
@pytest.mark.full
def test_a_client_gets_the_vectors_of_the_embedder(
    server: Server, embedder: Embedder, name: str, code: str
) -> None:
    embedded = np.array(run(server, code + FURTHER_USES.get(name, "")), dtype=np.float32)
    for vectors in embedded.reshape(-1, len(TEXTS), embedder.dim):
        # txtai normalizes the vectors again.
        atol = 1e-7 if name == "txtai" else 0
        np.testing.assert_allclose(vectors, embedder.embed(TEXTS), rtol=0, atol=atol)


def python_clients() -> list[str]:
    """The items of the page's list of Python clients."""
    text = PAGE.split("\n**Python**\n\n")[1].split("\n\n")[0]
    return re.findall(r"^- (.*)", text, re.MULTILINE)


def test_every_client_in_the_list_has_an_example() -> None:
    linked = re.findall(r"^\[.*?\]\(#(.*?)\)", "\n".join(python_clients()), re.MULTILINE)
    examples = [name.lower().replace(" ", "-") for name, _ in EXAMPLES]
    assert sorted([*linked, "embedwell"]) == sorted([*examples, "other-programs"])
    assert FURTHER_USES.keys() < {name for name, _ in EXAMPLES}


def test_the_list_of_clients_is_in_alphabetical_order() -> None:
    names = [item.split("]")[0].lower() for item in python_clients()]
    assert names == sorted(names) and len(names) > 15


@pytest.mark.parametrize(
    ("section", "body"),
    [
        ("OpenAI", EmbeddingsRequest),
        ("Cohere and Voyage", CohereRequest),
        ("Cohere and Voyage", CohereV1Request),
        ("Ollama", OllamaRequest),
        ("Ollama", OllamaPromptRequest),
    ],
)
def test_the_list_of_a_route_has_all_its_fields(section: str, body: type[Body]) -> None:
    text = API.split(f"\n## {section}\n")[1].split("\n## ")[0]
    heads = " ".join(re.findall(r"^- (`.*?):", text, re.MULTILINE))
    assert body.model_fields.keys() <= set(re.findall(r"`(\w+)`", heads))


def test_hugging_face_sends_every_option_of_the_route(server_with_prompts: Server) -> None:
    options: dict[str, Any] = {"normalize": False, "truncate": True, "dimensions": 8}
    options |= {"truncation_direction": "left", "prompt_name": "query"}
    text = "a long text " * 40
    code = f"""
from huggingface_hub import InferenceClient
client = InferenceClient("http://localhost:8080")
vectors = client.feature_extraction({text!r}, **{options})
"""
    vectors = np.array(run(server_with_prompts, code), dtype=np.float32)
    body = {**options, "inputs": PROMPTS["query"] + text, "prompt_name": None}
    expected = np.array(server_with_prompts.post("/embed", body).json(), dtype=np.float32)
    np.testing.assert_array_equal(vectors, expected)
    assert vectors.shape == (1, 8)


def test_hugging_face_raises_the_servers_error(server_with_prompts: Server) -> None:
    code = """
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
try:
    InferenceClient("http://localhost:8080").feature_extraction("x", prompt_name="missing")
except HfHubHTTPError as error:
    assert error.response.status_code == 400 and "no prompt 'missing'" in str(error)
    vectors = []
"""
    assert run(server_with_prompts, code) == []
