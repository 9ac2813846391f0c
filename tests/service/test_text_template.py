"""Texts in the chat template of a model: prompts, cuts, windows, tokens, and images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models.families.checkpoint import assert_close
from tests.models.qwen3_vl import (
    INSTRUCTION,
    last_states,
    rendered,
    tokenized,
    write_layout,
    write_qwen3_vl,
)
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

QUERY = "Retrieve what answers the query."
LONG = "any of the work " * 40
MAX_LENGTH = 96


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("qwen3-vl")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    reference = write_qwen3_vl(folder, max_length=MAX_LENGTH)
    prompts = {"query": QUERY, "document": INSTRUCTION}
    write_layout(folder, {"prompts": prompts, "default_prompt_name": "document"})
    return reference


@pytest.fixture(scope="module")
def server(folder: Path, model: Any) -> Iterator[HttpServer]:
    with local_server(folder, served_name="small") as server:
        yield server


def start(folder: Path, instruction: str = INSTRUCTION) -> list[int]:
    """The ids before a text."""
    before, _, _ = rendered("\0", instruction).partition("\0")
    return tokenized(folder, before)[:-1]


def end(folder: Path) -> list[int]:
    """The ids after a text."""
    return tokenized(folder, rendered("\0").partition("\0")[2])


def assert_read(server: HttpServer, model: Any, folder: Path, body: Any, text: str) -> None:
    """The vector of a request is that of a rendered text."""
    expected = last_states(model, [tokenized(folder, text)])
    assert_close(torch.from_numpy(vectors(server.post("/embed", body))), expected)


def test_a_prompt_is_the_instruction(server: HttpServer, model: Any, folder: Path) -> None:
    text = "the license"
    for options, instruction in [
        ({}, INSTRUCTION),
        ({"input_type": "query"}, QUERY),
        ({"prompt_name": "query"}, QUERY),
        ({"input_type": "clustering"}, INSTRUCTION),
        ({"prompt": "Find the opposite."}, "Find the opposite."),
    ]:
        body = {"inputs": [text], **options}
        assert_read(server, model, folder, body, rendered(text, instruction))
        details = server.post("/embed", {**body, "details": True}).json()
        assert details["prompt"]["text"] == instruction
        assert details["usage"]["tokens"] == len(tokenized(folder, rendered(text, instruction)))
    alone = rendered(text).partition("<|im_end|>\n")[2]
    assert_read(server, model, folder, {"inputs": [text], "prompt": ""}, alone)
    openai = server.post("/v1/embeddings", {"input": text, "model": "small"}).json()
    expected = last_states(model, [tokenized(folder, rendered(text))])
    assert_close(torch.tensor([openai["data"][0]["embedding"]]), expected)


@pytest.mark.parametrize("overflow", ["end", "start"])
def test_a_cut_leaves_the_template_whole(
    overflow: str, server: HttpServer, model: Any, folder: Path
) -> None:
    first, last = start(folder), end(folder)
    text = tokenized(folder, LONG)[:-1]
    room = MAX_LENGTH - len(first) - len(last)
    body = {"inputs": [LONG], "on_overflow": overflow, "details": True}
    response = server.post("/embed", body).json()
    dropped = len(text) - room
    assert response["inputs"] == [{"tokens": MAX_LENGTH, "truncated": True, "dropped": dropped}]
    remaining = text[:room] if overflow == "end" else text[-room:]
    expected = last_states(model, [[*first, *remaining, *last]])
    assert_close(torch.tensor(response["embeddings"]), expected)
    tokens = server.post("/tokens", {"inputs": LONG, "on_overflow": overflow}).json()["results"][0]
    assert tokens["dropped"] == dropped
    assert [token["id"] for token in tokens["tokens"]] == [*first, *remaining, *last]
    outside = [token["start"] is None for token in tokens["tokens"]]
    assert outside == [True] * len(first) + [False] * room + [True] * len(last)
    parts = [LONG[t["start"] : t["stop"]] for t in tokens["tokens"] if t["start"] is not None]
    read = "".join(parts)
    assert LONG.startswith(read) if overflow == "end" else LONG.endswith(read)


def test_windows_have_the_template_around_each(
    server: HttpServer, model: Any, folder: Path
) -> None:
    first, last = start(folder), end(folder)
    text, room = tokenized(folder, LONG)[:-1], MAX_LENGTH - len(first) - len(last)
    parts = [text[low : low + room] for low in range(0, len(text), room)]
    with torch.inference_mode():
        states = [
            model.model(input_ids=torch.tensor([[*first, *part, *last]])).last_hidden_state[0, -1]
            for part in parts
        ]
    weights = torch.tensor([len(part) for part in parts], dtype=torch.float32)
    mean = (torch.stack(states) * weights[:, None]).sum(0) / weights.sum()
    body = {"inputs": [LONG], "on_overflow": "mean"}
    found = torch.from_numpy(vectors(server.post("/embed", body)))[0]
    assert_close(found, torch.nn.functional.normalize(mean, dim=0))


def test_a_lower_limit_counts_the_template(server: HttpServer, folder: Path) -> None:
    first, last = start(folder), end(folder)
    limit = len(first) + len(last) + 3
    body = {"input": LONG, "model": "small", "truncate_prompt_tokens": limit}
    response = server.post("/v1/embeddings", body)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["prompt_tokens"] == limit
    refused = {**body, "truncate_prompt_tokens": limit - 3}
    assert error(server.post("/v1/embeddings", refused), 400)["code"] == "prompt_too_long"


def test_an_instruction_that_leaves_no_room_is_refused(server: HttpServer) -> None:
    for path, body in (("/embed", {"inputs": ["a"]}), ("/tokens", {"inputs": "a"})):
        response = server.post(path, {**body, "prompt": "any work " * 60})
        assert error(response, 400)["code"] == "prompt_too_long"


def test_tokenize_shows_what_is_read(server: HttpServer, folder: Path) -> None:
    (tokens,) = server.post("/tokenize", {"inputs": "the license"}).json()
    assert [token["id"] for token in tokens] == tokenized(folder, rendered("the license"))
    ids = [token["id"] for token in tokens]
    (text,) = server.post("/decode", {"ids": [ids], "skip_special_tokens": False}).json()
    assert text == rendered("the license") + "<|endoftext|>"


def test_token_ids_are_taken_as_they_are(server: HttpServer, model: Any, folder: Path) -> None:
    ids = tokenized(folder, rendered("the license"))
    assert_read(server, model, folder, {"inputs": [ids]}, rendered("the license"))


def test_an_image_is_refused(server: HttpServer) -> None:
    body = {"inputs": [{"image": "data:image/png;base64,AAAA"}]}
    refused = error(server.post("/embed", body), 400)
    assert refused["code"] == "not_offered"
    assert "reads texts only; send no images" in refused["message"]
