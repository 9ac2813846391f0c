"""Decisions of a small Laya, by the clients of OpenAI and of TypeSafe, and by the authors' code."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import laya
import numpy as np
import openai
import pytest
from jevcompat.runner import run
from typesafe_sdk import TypeSafeClient

from embedwell_models.hub.sources import resolve
from tests.models.cross_encoder import write_cross_encoder
from tests.models.laya_model import write_laya
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

STATE = "the work of the author is not a license to copy any of it"
CHOICES = {"work": "for the", "any": None, "such": "by is not"}
LEVELS = ["the", "of: such", "to"]
QUESTIONS: dict[str, Any] = {
    "team": {"type": "choice", "instructions": "which of any", "criteria": CHOICES},
    "how": {"type": "score", "instructions": "how much work", "criteria": LEVELS},
    "is it": {"type": "noul", "instructions": "this is by such"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_laya(tmp_path_factory.mktemp("decide") / "laya", max_len=128)


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    linked = resolve(str(folder), cache=tmp_path_factory.mktemp("cache"))
    with local_server(linked, served_name="laya") as server:
        yield server


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    """The answers of the authors' code."""
    with pytest.warns(RuntimeWarning, match="invalid temperatures"):
        agent = laya.load(str(folder), device="cpu")
    answers: dict[str, Any] = agent.system_one(STATE, QUESTIONS)["answers"]
    return answers


@pytest.fixture(scope="module")
def client(server: HttpServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose([*ours], [*theirs], atol=2e-4)  # theirs are rounded to 1e-4


def test_openai_has_the_answers_of_the_authors(
    client: openai.OpenAI, expected: dict[str, Any]
) -> None:
    options = [
        {"value": name, "description": about} if about else {"value": name}
        for name, about in CHOICES.items()
    ]
    levels = [{"label": "the"}, {"label": "of", "description": "such"}, {"label": "to"}]
    questions: Any = [
        {"type": "choice", "instructions": "which of any", "choices": options, "name": "team"},
        {"type": "score", "instructions": "how much work", "levels": levels},
        {"type": "predicate", "instructions": [{"type": "input_text", "text": "this is by such"}]},
    ]
    decision = client.decisions.create(model="laya", input=STATE, questions=questions)
    choice, score, predicate = decision.answers
    assert choice.type == "choice" and score.type == "score" and predicate.type == "predicate"
    assert (choice.name, score.name) == ("team", None)
    assert choice.choice == expected["team"]["choice"]
    close(
        [each.probability for each in choice.probabilities],
        expected["team"]["probabilities"].values(),
    )
    close(
        [each.probability for each in score.probabilities],
        expected["how"]["probabilities"].values(),
    )
    assert [(each.label, each.value) for each in score.probabilities] == [
        *(("the", 0), ("of", 1), ("to", 2))
    ]
    close(
        [score.score, predicate.probability], [expected["how"]["score"], expected["is it"]["noul"]]
    )
    assert decision.model == "laya" and decision.usage.output_tokens == 0
    assert decision.usage.input_tokens == decision.usage.total_tokens > 3 * 14


def test_true_and_false_are_options_next_to_texts(client: openai.OpenAI) -> None:
    options: Any = [{"value": True}, {"value": "true"}, {"value": False}]
    question: Any = {"type": "choice", "instructions": "is it", "choices": options}
    (answer,) = client.decisions.create(model="laya", input="a", questions=[question]).answers
    assert answer.type == "choice"
    assert [each.value for each in answer.probabilities] == [True, "true", False]


def test_a_conversation_is_read_with_its_tool_calls(client: openai.OpenAI) -> None:
    question: Any = {"type": "predicate", "instructions": "is it"}
    call = {"type": "function_call", "call_id": "1", "name": "of", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "any work"}
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_json", "data": {"to": 1}}]
    items: Any = [{"role": "user", "content": parts}, call, output]
    one = client.decisions.create(model="laya", input=items, questions=[question])
    changed: Any = [*items[:2], {**output, "output": "such"}]
    other = client.decisions.create(model="laya", input=changed, questions=[question])
    assert one.answers != other.answers
    orphan: Any = [items[0], output]
    with pytest.raises(openai.BadRequestError, match=r"input\.1: no call has the call_id '1'"):
        client.decisions.create(model="laya", input=orphan, questions=[question])


def test_typesafes_client_has_the_answers_of_the_authors(
    server: HttpServer, expected: dict[str, Any]
) -> None:
    with TypeSafeClient(api_key="unused", base_url=server.url) as client:
        response = client.system_one(state=STATE, questions=QUESTIONS)
    assert response.model == "laya" and response.usage.input_tokens
    team, how = response.choices["team"], response.scores["how"]
    assert team.choice == expected["team"]["choice"]
    close(team.probabilities.values(), expected["team"]["probabilities"].values())
    close(how.probabilities.values(), expected["how"]["probabilities"].values())
    close(
        [how.score, response.nouls["is it"].noul],
        [expected["how"]["score"], expected["is it"]["noul"]],
    )


def test_system_one_conforms_to_its_description(tmp_path: Path) -> None:
    # Up to 255 options fit into 1,200 tokens.
    folder = write_laya(tmp_path / "laya", max_len=1200)
    with local_server(resolve(str(folder), cache=tmp_path / "cache")) as server:
        report = run(server.url)
    failed = {each.id: each.findings for each in report.results if each.status == "fail"}
    # Unknown fields are refused here, errors have this server's format, and models OpenAI's.
    assert failed.keys() <= {"request.unknown-fields", "errors.validation-shape", "http.models"}
    assert report.verdict == "conformant", failed


@pytest.mark.parametrize(
    ("questions", "param", "message"),
    [
        ([], "questions", "at least 1 item"),
        ([{"type": "box", "instructions": "a"}], "questions", "'type' should be one of"),
        ([{"type": "choice", "instructions": "a", "choices": [{"value": "a"}]}], "questions", "2"),
        (
            [{"type": "choice", "instructions": "a", "choices": [{"value": "a"}] * 2}],
            "questions",
            "unique",
        ),
        (
            [
                {
                    "type": "choice",
                    "instructions": "a",
                    "choices": [{"value": str(i)} for i in range(99)],
                }
            ],
            "questions.0",
            "has 99 options, which do not fit into the 128 tokens",
        ),
        (
            [
                {
                    "type": "predicate",
                    "instructions": [{"type": "input_image", "image_url": "data:"}],
                }
            ],
            "instructions",
            "read no images",
        ),
    ],
    ids=["none", "type", "single", "twice", "many", "image"],
)
def test_a_wrong_question_is_named(
    server: HttpServer, questions: list[Any], param: str, message: str
) -> None:
    body = {"model": "laya", "input": "a", "questions": questions}
    response = server.post("/v1/decisions", body)
    assert response.status_code == 400
    described = response.json()["error"]
    assert described["param"].startswith(param) and message in described["message"]


def test_a_model_that_decides_does_not_embed(server: HttpServer) -> None:
    response = server.post("/embed", {"inputs": "a"})
    message = "this model has no dense vectors; it has decision (POST /v1/decisions)"
    assert error(response, 400)["message"] == message
    pooling = {"model": "laya", "input": "a"}
    message = "this model pools no texts; it has decision (POST /v1/decisions)"
    assert error(server.post("/pooling", pooling), 400)["message"] == message
    labels = {"inputs": "a", "parameters": {"candidate_labels": ["a"]}}
    for path, body in (("/zero-shot-classification", labels), ("/predict", {"inputs": "a"})):
        message = "this model neither reranks nor classifies; it has decision (POST /v1/decisions)"
        assert error(server.post(path, body), 400)["message"] == message
    info = server.client.get("/info").json()
    assert (info["task"], info["max_input_length"]) == ("decide", 128)
    assert server.client.get("/v1/models/laya").json()["model_type"] == "decide"


def test_other_models_make_no_decisions(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, 1)
    with local_server(tmp_path) as reranker:
        body = {"state": "a", "questions": {"a": {"type": "noul", "instructions": "a"}}}
        message = error(reranker.post("/v1/systemone", body), 400)["message"]
        assert message == "this model reranks and makes no decisions; send the request to /rerank"
        labels = {"inputs": "a", "parameters": {"candidate_labels": ["a"]}}
        message = error(reranker.post("/zero-shot-classification", labels), 400)["message"]
        assert message.startswith("this model has no label for entailment")


@pytest.mark.full
def test_the_example_of_the_page_runs(server: HttpServer) -> None:
    page = (Path(__file__).parents[3] / "docs/decisions.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = code.replace("http://localhost:8080", server.url)
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert printed[1] in {"billing", "support"} and len(printed) == 4
    (curl,) = re.findall(r"^(curl .*systemone .*)$", page, re.MULTILINE)
    command = ["bash", "-c", curl.replace("localhost:8080", server.url)]
    answers = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["answers"]
    assert answers["refund"].keys() == {"type", "noul"}
