"""The newest LiteLLM, which asks for an older importlib-metadata than other tested programs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clients.conftest import DOCUMENTS, QUERY
from tests.clients.decision_server import decision_server
from tests.clients.example_program import run_program
from tests.service.server import HttpServer

PACKAGES = ("litellm==1.110.2", "importlib-metadata==8.9.0")
STATE = "the work of the author is not a license to copy any of it"
QUESTIONS = {
    "team": {
        "type": "choice",
        "instructions": "which of any",
        "criteria": {"work": "a", "of": "b"},
    },
    "how": {"type": "score", "instructions": "how much", "criteria": ["the", "of", "to"]},
    "is it": {"type": "noul", "instructions": "this is by such"},
}
TYPED_QUESTIONS = [
    {
        "type": "choice",
        "instructions": "which of any",
        "choices": [{"value": "work"}, {"value": "of"}],
    },
    {"type": "score", "instructions": "how much", "levels": [{"label": "the"}, {"label": "of"}]},
    {"type": "predicate", "instructions": "this is by such"},
]
TYPED = {"model": "laya", "input": STATE, "questions": TYPED_QUESTIONS}
NAMED = {"state": STATE, "questions": QUESTIONS}
pytestmark = [pytest.mark.full, pytest.mark.needs("litellm")]  # of it, its requirements


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Code that lets a program use packages of a folder before the installed ones."""
    folder = tmp_path_factory.mktemp("litellm")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    options = ["--no-deps", "--no-compile", "--target", str(folder)]
    subprocess.run([*pip, *options, *PACKAGES], check=True)
    return f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport asyncio, litellm\n"


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with decision_server(tmp_path_factory.mktemp("decide")) as server:
        yield server


@pytest.fixture(scope="module")
def answers(
    setup: str, decider: HttpServer, server_with_prompts: HttpServer, reranker: HttpServer
) -> dict[str, Any]:
    """Return what LiteLLM has from three servers, by one program, as its import takes seconds."""
    code = f"""
url, key = "http://localhost:8080", "unused"
request = {{"model": "openai/laya", "input": {STATE!r}, "questions": {TYPED_QUESTIONS!r}}}
request |= {{"api_base": url + "/v1", "api_key": key}}
response = litellm.decisions(**request)
assert asyncio.run(litellm.adecisions(**request)).answers == response.answers

def answers(provider):
    request = {{"state": {STATE!r}, "questions": {QUESTIONS!r}, "api_base": url, "api_key": key}}
    return litellm.systemone(provider + "/laya", **request).model_dump()["answers"]

embedded = litellm.embedding(
    "openai/tiny", {DOCUMENTS!r}, api_base="{server_with_prompts.url}/v1", api_key=key
)
ranked = litellm.rerank(
    "cohere/reranker", query={QUERY!r}, documents={DOCUMENTS!r}, api_base="{reranker.url}",
    api_key=key,
)
result = {{
    "file": litellm.__file__,
    "typed": response.model_dump()["answers"],
    "providers": [answers(provider) for provider in ("hosted_vllm", "ollama", "typesafe")],
    "embedded": [row["embedding"] for row in embedded.data],
    "ranked": ranked.results,
}}
"""
    result: dict[str, Any] = run_program(decider, setup + code, "result")
    assert repr(str(Path(result["file"]).parents[1])) in setup
    return result


def test_decisions(answers: dict[str, Any], decider: HttpServer) -> None:
    for answer, expected in zip(
        answers["typed"], _answers(decider, "decisions", TYPED), strict=True
    ):
        assert _part(answer, expected) == expected
    by_name = _answers(decider, "systemone", NAMED)
    assert len(answers["providers"]) == 3
    for each in answers["providers"]:
        assert {name: _part(each[name], by_name[name]) for name in QUESTIONS} == by_name


def _answers(decider: HttpServer, route: str, body: dict[str, Any]) -> Any:
    return decider.post(f"/v1/{route}", body).json()["answers"]


def _part(answer: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in expected}


def test_embeddings(answers: dict[str, Any], server_with_prompts: HttpServer) -> None:
    body = {"model": "tiny", "input": DOCUMENTS}
    rows = server_with_prompts.post("/v1/embeddings", body).json()["data"]
    expected = [row["embedding"] for row in rows]
    np.testing.assert_allclose(answers["embedded"], expected, rtol=1e-6)


def test_rerank(answers: dict[str, Any], reranker: HttpServer) -> None:
    body = {"model": "reranker", "query": QUERY, "documents": DOCUMENTS}
    expected = reranker.post("/v1/rerank", body).json()["results"]
    assert [row["index"] for row in answers["ranked"]] == [row["index"] for row in expected]
