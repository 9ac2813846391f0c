"""Candidate labels against transformers' pipeline, by the client of Hugging Face."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import pipeline

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

TEXT = "the license"
NAMES = ["work", "copyright", "any by this"]
ORDERS = {
    "first": ("Entailment", "neutral", "contradiction"),
    "last": ("contradiction", "neutral", "entailment"),
    "two": ("entailment", "not_entailment"),
}

PROGRAM = """
import sys
from huggingface_hub import InferenceClient
client = InferenceClient(sys.argv[1])
labels = client.zero_shot_classification("the license", ["work", "copyright", "any by this"])
print(len(labels), min(each.label for each in labels[:] if each.label.startswith("c")))
print(len(client.zero_shot_classification("you", ["a", "b"], multi_label=True)))
"""


@pytest.fixture(scope="module", params=ORDERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = ORDERS[request.param]
    id2label = {str(index): label for index, label in enumerate(labels)}
    return write_cross_encoder(
        *(tmp_path_factory.mktemp("nli"), len(labels)),
        id2label=id2label,
        label2id={label: int(index) for index, label in id2label.items()},
    )


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="nli") as server:
        yield server


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"multi_label": True},
        {"hypothesis_template": "of {} is such"},
        {"candidate_labels": NAMES[:1]},
    ],
    ids=["one", "several", "template", "single"],
)
def test_scores_are_those_of_the_pipeline(
    folder: Path, server: HttpServer, options: dict[str, Any]
) -> None:
    arguments = {"candidate_labels": NAMES, **options}
    theirs = pipeline("zero-shot-classification", str(folder), device="cpu")(TEXT, **arguments)
    body = {"inputs": TEXT, "parameters": arguments}
    ours = server.post("/zero-shot-classification", body).json()
    assert [each["label"] for each in ours] == theirs["labels"]
    np.testing.assert_allclose([each["score"] for each in ours], theirs["scores"], atol=1e-5)


def test_hugging_faces_client_gets_labels(server: HttpServer) -> None:
    # In a process of its own, because the tests make Hugging Face's package offline.
    command = [sys.executable, "-c", PROGRAM, f"{server.url}/zero-shot-classification"]
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["3", "copyright", "2"], done.stderr


def test_several_texts_have_their_labels_each(server: HttpServer) -> None:
    parameters = {"candidate_labels": NAMES}
    bodies = [{"inputs": text, "parameters": parameters} for text in (TEXT, "you")]
    alone = [server.post("/zero-shot-classification", body).json() for body in bodies]
    together = {"inputs": [TEXT, "you"], "parameters": parameters}
    assert server.post("/zero-shot-classification", together).json() == alone


def test_a_template_without_a_place_is_refused(server: HttpServer) -> None:
    parameters = {"candidate_labels": NAMES, "hypothesis_template": "so"}
    body = {"inputs": TEXT, "parameters": parameters}
    fault = error(server.post("/zero-shot-classification", body), 400)
    assert fault["message"].startswith("hypothesis_template has no {} for the label")


@pytest.mark.full
def test_the_pairs_of_a_request_are_limited(server: HttpServer) -> None:
    body = {"inputs": ["a"] * 9999, "parameters": {"candidate_labels": ["b"] * 9999}}
    message = error(server.post("/zero-shot-classification", body), 413)["message"]
    assert message == "the request has 99980001 texts, but the limit is 2048; split it"


def test_the_example_of_the_page_gets_labels(server: HttpServer) -> None:
    page = (Path(__file__).parents[3] / "docs/decisions.md").read_text(encoding="utf-8")
    (curl,) = re.findall(r"^(curl .*zero-shot.*)$", page, re.MULTILINE)
    command = ["bash", "-c", curl.replace("localhost:8080", server.url)]
    labels = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert {each["label"] for each in labels} == {"mobile", "billing"}
