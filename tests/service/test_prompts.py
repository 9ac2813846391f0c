"""Tests of prompts by name, by text and by role."""

import json
from collections.abc import Iterator

import pytest

from embedwell.compute.served_model import with_prompts
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

PROMPTS = {"query": "query: ", "passage": "passage: ", "plain": ""}


@pytest.fixture(scope="module")
def server_with_prompts(tiny_bert: Folder) -> Iterator[HttpServer]:
    card = {"prompts": PROMPTS, "default_prompt_name": "passage"}
    folder = tiny_bert({"config_sentence_transformers.json": card})
    with local_server(folder) as running:
        yield running


@pytest.mark.parametrize(
    ("prompt", "name", "text"),
    [
        ({}, "passage", "passage: "),
        ({"prompt_name": "plain"}, "plain", ""),
        ({"prompt_name": "query"}, "query", "query: "),
        ({"input_type": "query"}, "query", "query: "),
        ({"input_type": "document"}, "passage", "passage: "),
        ({"prompt": "of my own: "}, None, "of my own: "),
    ],
)
def test_details_contain_the_prompt_of_the_texts(
    server_with_prompts: HttpServer, prompt: dict[str, str], name: str | None, text: str
) -> None:
    content = server_with_prompts.post(
        "/embed", {"inputs": "the work", "details": True, **prompt}
    ).json()
    assert content["prompt"] == {"name": name, "text": text}
    plain = {"inputs": text + "the work", "prompt": ""}
    assert [content["embeddings"][0]] == server_with_prompts.post("/embed", plain).json()


def test_a_setting_adds_prompts_and_replaces_those_of_the_files(tiny_bert: Folder) -> None:
    card = {"prompts": PROMPTS, "default_prompt_name": "passage"}
    folder = tiny_bert({"config_sentence_transformers.json": card})
    own = {"query": "a question: ", "clustering": "a group: ", "default": "a text: "}
    with local_server(folder, prompts=json.dumps(own)) as server:
        info = server.client.get("/info").json()
        assert info["prompts"] == PROMPTS | own and info["default_prompt"] == "a text: "
        for field, text in (
            ({}, "a text: "),
            ({"input_type": "query"}, "a question: "),
            ({"input_type": "document"}, "passage: "),
            ({"input_type": "clustering"}, "a group: "),
        ):
            vector = server.post("/embed", {"inputs": "the work", **field}).json()
            plain = {"inputs": f"{text}the work", "prompt": ""}
            assert vector == server.post("/embed", plain).json()


def test_published_prompts_are_found_by_the_name_of_the_model(tiny_bert: Folder) -> None:
    description = ModelDescription.read(tiny_bert())
    chosen = with_prompts(description, "published", "intfloat/e5-small-v2").recipe
    assert chosen.prompts == {"query": "query: ", "document": "passage: "}
    assert chosen.default_prompt == description.recipe.default_prompt == ""
    assert with_prompts(description, "", "intfloat/e5-small-v2") is description
    with pytest.raises(ModelError, match=r"EMBEDWELL_PROMPTS: no published prompts of me/mine"):
        with_prompts(description, "published", "me/mine")


def test_a_reranker_takes_no_prompts(tiny_bert: Folder) -> None:
    folder = tiny_bert()
    options = json.loads((folder / "config.json").read_text())
    options |= {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "score"}}
    (folder / "config.json").write_text(json.dumps(options))
    description = ModelDescription.read(folder)
    with pytest.raises(ModelError, match=r"EMBEDWELL_PROMPTS: .* takes no other prompts"):
        with_prompts(description, '{"query": "q: "}', "me/mine")


def test_token_ids_get_no_prompt(server_with_prompts: HttpServer) -> None:
    body = {"inputs": "the work", "prompt": ""}
    ids = [token["id"] for token in server_with_prompts.post("/tokenize", body).json()[0]]
    plain = vectors(server_with_prompts.post("/embed", {"inputs": "the work", "prompt": ""}))
    assert (vectors(server_with_prompts.post("/embed", {"inputs": ids})) == plain).all()


@pytest.mark.parametrize(
    "prompt",
    [
        {},
        {"prompt_name": None},
        {"prompt_name": "query"},
        {"prompt_name": "plain"},
        {"input_type": "query"},
        {"prompt": "of my own: "},
    ],
)
def test_the_tokens_of_the_prompt_are_counted(
    server_with_prompts: HttpServer, prompt: dict[str, str]
) -> None:
    body = {"inputs": "the work", **prompt}
    read = server_with_prompts.post("/embed", body).headers["x-tokens"]
    assert len(server_with_prompts.post("/tokenize", body).json()[0]) == int(read)


@pytest.mark.parametrize("path", ["/embed", "/tokenize"])
@pytest.mark.parametrize("name", ["", "title"])
def test_an_unknown_name_is_refused_on_every_route(
    server_with_prompts: HttpServer, path: str, name: str
) -> None:
    failure = error(server_with_prompts.post(path, {"inputs": "a", "prompt_name": name}), 400)
    assert (failure["code"], failure["param"]) == ("unknown_prompt", "prompt_name")


def test_more_than_one_prompt_is_refused(server_with_prompts: HttpServer) -> None:
    for body in (
        {"prompt": "a", "prompt_name": "query"},
        {"prompt": "a", "input_type": "query"},
        {"prompt_name": "query", "input_type": "query"},
    ):
        response = server_with_prompts.post("/embed", {"inputs": "a", **body})
        assert error(response, 400)["param"] == "prompt"
    failure = error(server_with_prompts.post("/embed", {"inputs": "a", "input_type": "title"}), 400)
    assert failure["param"] == "input_type"
