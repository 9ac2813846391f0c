"""Candidate labels of a small GLiClass against the authors' pipeline."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from tests.models.gliclass_model import (
    GLiClassModel,
    ZeroShotClassificationPipeline,
    write_gliclass,
)
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

PATH = "/zero-shot-classification"
TEXTS = ["the work of the author is not a license", "by such"]
NAMES = ["work", "any license", "not (by) this, for you"]
PROGRAM = """
import sys
from huggingface_hub import InferenceClient
client = InferenceClient(sys.argv[1])
labels = client.zero_shot_classification("the license", ["work", "copyright", "any by this"])
print(len(labels), round(sum(each.score for each in labels), 4))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, Any] = {
        "scorer_type": "mlp",
        "pooling_strategy": "avg",
        "max_num_classes": 2,
    }
    return write_gliclass(tmp_path_factory.mktemp("gliclass"), **options)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="gliclass") as server:
        yield server


@pytest.fixture(scope="module")
def pipeline(folder: Path) -> Any:
    model, tokenizer = GLiClassModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    return ZeroShotClassificationPipeline(model, tokenizer, device="cpu", progress_bar=False)


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("prompt", [None, "which of these: "], ids=["plain", "prompt"])
def test_scores_are_those_of_the_authors(
    server: HttpServer, pipeline: Any, *, several: bool, prompt: str | None
) -> None:
    kind = "multi-label" if several else "single-label"
    arguments = {"classification_type": kind, "prompt": prompt, "return_hierarchical": True}
    expected = [pipeline(text, NAMES, **arguments)[0] for text in TEXTS]
    parameters = {"candidate_labels": NAMES, "multi_label": several}
    body = {"inputs": TEXTS, "parameters": parameters, "instruction": prompt}
    response = server.post(PATH, body).json()
    for labels, scores in zip(response, expected, strict=True):
        assert [each["score"] for each in labels] == sorted(
            (each["score"] for each in labels), reverse=True
        )
        ours = {each["label"]: each["score"] for each in labels}
        np.testing.assert_allclose([ours[name] for name in NAMES], [*scores.values()], atol=1e-5)


def test_a_template_is_the_text_around_each_label(server: HttpServer) -> None:
    template = {"candidate_labels": ["work", "any"], "hypothesis_template": "of {} by"}
    ours = server.post(PATH, {"inputs": "a", "parameters": template}).json()
    spelled = {"candidate_labels": ["of work by", "of any by"]}
    expected = server.post(PATH, {"inputs": "a", "parameters": spelled}).json()
    assert [each["score"] for each in ours] == [each["score"] for each in expected]
    assert {each["label"] for each in ours} == {"work", "any"}


def test_labels_that_do_not_fit_are_refused(server: HttpServer) -> None:
    body = {"inputs": ["a"], "parameters": {"candidate_labels": ["any work"] * 400}}
    message = error(server.post(PATH, body), 400)["message"]
    assert message.startswith("the labels do not fit into the tokens that the model reads with")


def test_the_texts_of_a_request_are_limited_with_the_labels(server: HttpServer) -> None:
    body = {"inputs": ["a"] * 2049, "parameters": {"candidate_labels": NAMES}}
    assert error(server.post(PATH, body), 413)["code"] == "too_many_texts"
    body = {"inputs": ["a"] * 2048, "parameters": {"candidate_labels": ["any work" * 5000]}}
    message = error(server.post(PATH, body), 413)["message"]
    assert message.startswith("2048 texts, each with the labels, have 81954816 characters, but")


def test_a_long_text_is_cut_unless_the_request_forbids_it(server: HttpServer) -> None:
    body = {"inputs": "a " * 1500, "parameters": {"candidate_labels": NAMES}}
    assert server.post(PATH, body).headers["x-truncated"] == "1"
    fault = error(server.post(PATH, {**body, "truncate": False}), 400)
    assert fault["message"].startswith("This model's maximum context length is 1024 tokens")
    fault = error(server.post(PATH, {**body, "on_overflow": "max"}), 400)
    assert fault["message"].startswith("on_overflow must be error, start or end here")


def test_the_root_answers_hugging_faces_client(server: HttpServer) -> None:
    # In a process of its own, because the tests make Hugging Face's package offline.
    command = [sys.executable, "-c", PROGRAM, server.url]
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["3", "1.0"], done.stderr


def test_other_routes_say_what_the_model_has(server: HttpServer) -> None:
    expected = "it has labels (POST /zero-shot-classification)"
    message = error(server.post("/embed", {"inputs": "a"}), 400)["message"]
    assert message == f"this model has no dense vectors; {expected}"
    question = {"state": "a", "questions": {"a": {"type": "noul", "instructions": "a"}}}
    message = error(server.post("/v1/systemone", question), 400)["message"]
    assert message == f"this model makes no decisions; {expected}"
