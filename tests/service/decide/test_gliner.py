"""Decisions and candidate labels of a small GLiNER2 against the authors' code."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models.hub.sources import resolve
from tests.models.gliner_model import AutoExtractor, write_gliner
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

ZERO_SHOT, DECISIONS, SYSTEM_ONE = "/zero-shot-classification", "/v1/decisions", "/v1/systemone"
TEXTS = ["The work of the author is not a license", "by such!"]
CHOICES = {"work": "for the", "any": None, "such": "by is not"}
LABELS = ["work", "any license", "not (by) this, for you"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gliner(tmp_path_factory.mktemp("gliner") / "gliner")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    linked = resolve(str(folder), cache=tmp_path_factory.mktemp("cache"))
    with local_server(linked, served_name="gliner") as server:
        yield server


@pytest.fixture(scope="module")
def authors(folder: Path) -> Any:
    return AutoExtractor.from_pretrained(str(folder))


def scores(authors: Any, text: str, name: str, task: Mapping[str, Any]) -> dict[str, float]:
    """Return the probability of each label; the authors' code returns those above a threshold."""
    several = {"multi_label": True, "cls_threshold": 0.0, "class_act": "softmax", **task}
    answer = authors.classify_text(text, {name: several}, include_confidence=True)
    return {each["label"]: each["confidence"] for each in answer[name]}


def close(ours: Mapping[str, float], theirs: Mapping[str, float]) -> None:
    np.testing.assert_allclose([ours[name] for name in theirs], [*theirs.values()], atol=1e-5)


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("task", [None, "kind of work"], ids=["plain", "task"])
def test_labels_have_the_scores_of_the_authors(
    server: HttpServer, authors: Any, *, several: bool, task: str | None
) -> None:
    parameters = {"candidate_labels": LABELS, "multi_label": several}
    body = {"inputs": TEXTS, "parameters": parameters, "instruction": task}
    options = {"labels": LABELS, "class_act": "sigmoid" if several else "softmax"}
    for text, labels in zip(TEXTS, server.post(ZERO_SHOT, body).json(), strict=True):
        ours = {each["label"]: each["score"] for each in labels}
        assert [*ours.values()] == sorted(ours.values(), reverse=True)
        close(ours, scores(authors, text, task or "category", options))


def test_systemone_has_the_answers_of_the_authors(server: HttpServer, authors: Any) -> None:
    questions: dict[str, dict[str, Any]] = {
        "team": {"type": "choice", "instructions": "which of any", "criteria": CHOICES},
        "how": {"type": "score", "instructions": "how much work", "criteria": ["the", "of", "to"]},
        "is it": {
            "type": "noul",
            "instructions": "this is by such",
            "criteria": {"true": "it is"},
        },
    }
    body = {"state": TEXTS[0], "questions": questions}
    answers = server.post(SYSTEM_ONE, body).json()["answers"]
    described = {name: about for name, about in CHOICES.items() if about}
    tasks: dict[str, dict[str, Any]] = {
        "team": {"labels": [*CHOICES], "label_descriptions": described},
        "how": {"labels": ["the", "of", "to"]},
        "is it": {"labels": ["yes", "no"], "label_descriptions": {"yes": "it is"}},
    }
    team, how, is_it = (
        scores(authors, TEXTS[0], name, {"prompt": questions[name]["instructions"], **task})
        for name, task in tasks.items()
    )
    close(answers["team"]["probabilities"], team)
    close(answers["how"]["probabilities"], dict(zip("012", how.values(), strict=True)))
    assert answers["is it"]["noul"] == pytest.approx(is_it["yes"], abs=1e-5)


def test_decisions_read_a_name_if_there_is_one(server: HttpServer, authors: Any) -> None:
    choices = [{"value": name} for name in CHOICES]
    question = {"type": "choice", "instructions": "which of any", "choices": choices}
    body = {"input": TEXTS[1], "questions": [question, {**question, "name": "team"}]}
    for answer, name, task in zip(
        server.post(DECISIONS, body).json()["answers"],
        ("which of any", "team"),
        ({}, {"prompt": "which of any"}),
        strict=True,
    ):
        ours = {each["value"]: each["probability"] for each in answer["probabilities"]}
        close(ours, scores(authors, TEXTS[1], name, {"labels": [*CHOICES], **task}))


def test_options_that_do_not_fit_are_refused(server: HttpServer) -> None:
    body = {"inputs": ["a"], "parameters": {"candidate_labels": ["any work"] * 900}}
    message = error(server.post(ZERO_SHOT, body), 400)["message"]
    assert message == (
        "parameters.candidate_labels has 900 options, which do not fit into the 2048 tokens that "
        "the model reads; give fewer"
    )


def test_the_texts_of_a_request_are_limited(server: HttpServer) -> None:
    body = {"inputs": ["a"] * 2049, "parameters": {"candidate_labels": LABELS}}
    assert error(server.post(ZERO_SHOT, body), 413)["code"] == "too_many_texts"


def test_many_rows_have_the_scores_of_one(server: HttpServer) -> None:
    parameters = {"candidate_labels": LABELS}
    many = server.post(ZERO_SHOT, {"inputs": TEXTS * 10, "parameters": parameters}).json()
    assert many == server.post(ZERO_SHOT, {"inputs": TEXTS, "parameters": parameters}).json() * 10


def test_a_long_text_is_cut_unless_the_request_forbids_it(server: HttpServer) -> None:
    body = {"inputs": "a " * 3000, "parameters": {"candidate_labels": LABELS}}
    cut = server.post(ZERO_SHOT, body)
    assert cut.headers["x-truncated"] == "1"
    assert server.post(ZERO_SHOT, {**body, "inputs": "a " * 30_000}).json() == cut.json()
    fault = error(server.post(ZERO_SHOT, {**body, "truncate": False}), 400)
    assert fault["message"].startswith("This model's maximum context length is 2048 tokens")
    short = server.post(ZERO_SHOT, {**body, "truncate_prompt_tokens": 64})
    assert (short.headers["x-truncated"], short.headers["x-tokens"]) == ("1", "64")
    fault = error(server.post(ZERO_SHOT, {**body, "on_overflow": "max"}), 400)
    assert fault["message"].startswith("on_overflow must be error, start or end here")


def test_the_root_labels_texts(server: HttpServer) -> None:
    body = {"inputs": TEXTS[0], "parameters": {"candidate_labels": LABELS}}
    assert server.post("/", body).json() == server.post(ZERO_SHOT, body).json()


def test_other_routes_say_what_the_model_has(server: HttpServer) -> None:
    message = error(server.post("/embed", {"inputs": "a"}), 400)["message"]
    assert message == (
        "this model has no dense vectors; it has decision (POST /v1/decisions) and labels "
        "(POST /zero-shot-classification)"
    )
