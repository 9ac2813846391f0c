"""Clients that classify, with a server of a small model of three labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from infinity_client import Client as InfinityClient
from infinity_client.api.default import classify as infinity_classify
from infinity_client.models import ClassifyInput
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.clients.example_program import run_program
from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.server import HttpServer

TEXTS = ["I like it.", "Never again."]

Scores = dict[str, float]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    write_cross_encoder(folder, labels=3)
    return folder


@pytest.fixture(scope="module")
def classifier(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="classifier") as server:
        yield server


@pytest.fixture(scope="module")
def logits(folder: Path) -> torch.Tensor:
    """The logits of TEXTS by transformers: (2, 3)."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    model.train(False)
    with torch.no_grad():
        rows = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
        logits: torch.Tensor = model(**rows).logits
    return logits


def labelled(scores: torch.Tensor) -> Any:
    """The expected labels of a text with their scores, the best first."""
    order = scores.argsort(descending=True).tolist()
    return [
        {"label": f"LABEL_{i}", "score": pytest.approx(float(scores[i]), abs=1e-4)} for i in order
    ]


@pytest.mark.parametrize("raw_scores", [False, True])
def test_infinity_gets_all_labels_of_each_text(
    classifier: HttpServer, logits: torch.Tensor, raw_scores: bool
) -> None:
    with InfinityClient(classifier.url, raise_on_unexpected_status=True) as client:
        body = ClassifyInput(input_=TEXTS, raw_scores=raw_scores)
        response: Any = infinity_classify.sync(client=client, body=body)
    scores = logits if raw_scores else logits.softmax(1)
    assert [[item.to_dict() for item in items] for items in response.data] == [
        labelled(row) for row in scores
    ]
    assert response.model == "classifier" and response.usage.total_tokens > 0


def hugging_face(server: HttpServer, arguments: str = "") -> Any:
    """The labels of the first text, as huggingface_hub has them."""
    code = f"""
from huggingface_hub import InferenceClient
client = InferenceClient("http://localhost:8080/predict")
labels = client.text_classification({TEXTS[0]!r}{arguments})
"""
    return run_program(server, code, "[dict(label) for label in labels]")


def test_hugging_face_gets_all_labels(classifier: HttpServer, logits: torch.Tensor) -> None:
    assert hugging_face(classifier) == labelled(logits[0].softmax(0))


@pytest.mark.parametrize(
    ("function", "scores"),
    [
        ("none", lambda logits: logits),
        ("sigmoid", torch.sigmoid),
        ("softmax", lambda logits: logits.softmax(0)),
    ],
)
def test_hugging_face_chooses_the_function_and_the_number_of_labels(
    classifier: HttpServer, logits: torch.Tensor, function: str, scores: Any
) -> None:
    labels = hugging_face(classifier, f", function_to_apply={function!r}, top_k=2")
    assert labels == labelled(scores(logits[0]))[:2]


def test_raw_scores_and_a_function_are_refused_together(classifier: HttpServer) -> None:
    body = {"inputs": "x", "raw_scores": True, "parameters": {"function_to_apply": "softmax"}}
    response = classifier.post("/predict", body)
    assert (response.status_code, response.json()["param"]) == (400, "raw_scores")
