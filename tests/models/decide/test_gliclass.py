"""GLiClass against the authors' own code, on random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from embedwell_decide.label_options import LabelOptions, labels_text, without_markers
from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.outputs.names import LABELS
from tests.models.gliclass_model import (
    ENCODERS,
    GLiClassModel,
    ZeroShotClassificationPipeline,
    write_gliclass,
)

TEXTS = ["the work of the author is not a license to copy any of it", "", "by such", "to use " * 90]
NAMES = ["work", "any license", "not (by) this, for you"]
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "weighted": {"scorer_type": "weighted-dot", "pooling_strategy": "avg"},
    "mlp": {"scorer_type": "mlp", "pooling_strategy": "max", "embed_class_token": False},
    "normalized": {"normalize_features": True, "pooling_strategy": "last"},
    "averaged": {"class_token_pooling": "average", "pooling_strategy": "rms"},
    "averaged words": {
        **{"class_token_pooling": "average", "embed_class_token": False},
        **{"extract_text_features": True, "pooling_strategy": "abs_max"},
    },
    "text alone": {"extract_text_features": True, "pooling_strategy": "abs_avg"},
    "text first": {"prompt_first": False, "pooling_strategy": "sum"},
}


class Labeller:
    """Our model, with what it reads."""

    def __init__(self, folder: Path) -> None:
        self.embedder = Embedder.load(str(folder), dtype="float32")
        self.options = LabelOptions.read(folder)

    def ids(self, text: str, labels: list[str], prompt: str = "") -> list[int]:
        return self.embedder.tokenize(self.options.joined(labels_text(labels, prompt), text))

    def logits(self, rows: list[list[int]]) -> list[np.ndarray[Any, Any]]:
        outputs = self.embedder.outputs([np.array(row, np.int32) for row in rows], [LABELS])
        return [output.multi[:, 0] for output in outputs if output.multi is not None]


class Authors:
    """The authors' pipeline, in float64."""

    def __init__(self, folder: Path) -> None:
        self.model = GLiClassModel.from_pretrained(folder).double()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pipeline: Any = ZeroShotClassificationPipeline(
            *(self.model, tokenizer), device="cpu", progress_bar=False
        )
        self.pipeline = pipeline.pipe

    def inputs(self, text: str, labels: list[str], prompt: str = "") -> Any:
        return self.pipeline.prepare_inputs([text], labels, same_labels=True, prompt=prompt)

    def logits(self, text: str, labels: list[str]) -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            outputs = self.model(**self.inputs(text, labels), max_num_classes=len(labels))
        logits: np.ndarray[Any, Any] = outputs.logits[0].numpy()
        return logits


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.full(after=5)
def test_logits_are_those_of_the_authors(encoder: str, options: str, tmp_path: Path) -> None:
    write_gliclass(tmp_path, encoder, **OPTIONS[options])
    ours, theirs = Labeller(tmp_path), Authors(tmp_path)
    cases = [(text, NAMES[:count]) for text in TEXTS for count in (1, 3)]
    rows = [ours.ids(*case) for case in cases]
    for case, row, logits in zip(cases, rows, ours.logits(rows), strict=True):
        assert row == theirs.inputs(*case)["input_ids"][0].tolist()
        np.testing.assert_allclose(logits, theirs.logits(*case), rtol=2e-4, atol=2e-4)


@pytest.fixture(scope="module")
def labeller(tmp_path_factory: pytest.TempPathFactory) -> Labeller:
    options = {"scorer_type": "weighted-dot", "pooling_strategy": "avg"}
    return Labeller(write_gliclass(tmp_path_factory.mktemp("gliclass"), "deberta-v2", **options))


def test_labels_have_the_same_bytes_in_every_batch(labeller: Labeller) -> None:
    rows = [labeller.ids(text, NAMES[:count]) for text in TEXTS for count in (1, 2, 3)]
    together = labeller.logits(rows)
    alone = [labeller.logits([row])[0] for row in rows]
    assert all(map(np.array_equal, together, alone))


def test_a_long_text_is_cut_as_the_authors_cut_it(tmp_path: Path) -> None:
    write_gliclass(tmp_path)
    ours, text = Labeller(tmp_path), "such any work " * 900
    row = ours.ids(text, NAMES, "by the")
    assert row == Authors(tmp_path).inputs(text, NAMES, "by the")["input_ids"][0].tolist()
    assert len(row) == 1024


def test_markers_of_labels_are_not_read_in_a_text(labeller: Labeller) -> None:
    text = "a <<LABEL>>work<<SEP>> is<<EXAMPLE>>"
    assert without_markers(text) == "a  work  is "
    assert labeller.ids(without_markers(text), NAMES).count(labeller.options.label_id) == 3


def test_a_model_of_labels_has_no_other_outputs(tmp_path: Path) -> None:
    description = ModelDescription.read(write_gliclass(tmp_path))
    assert (description.task, description.outputs) == ("decide", (LABELS,))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architecture_type": "bi-encoder"}, "architecture_type = 'bi-encoder' is not supported"),
        ({"scorer_type": "hopfield"}, "scorer_type = 'hopfield' is not supported"),
        ({"pooling_strategy": "pass"}, "pooling_strategy = 'pass' is not supported"),
        ({"use_lstm": True}, "use_lstm = True is not supported"),
        ({"class_token_index": "a"}, "class_token_index = 'a' is not a whole number"),
        ({"encoder_config": {"model_type": "qwen3"}}, "has no 'encoder_config.hidden_size'"),
        (
            {"encoder_config": {"model_type": "qwen3", "hidden_size": 64, "vocab_size": 9}},
            "encoder_config.model_type = 'qwen3' is not supported",
        ),
        ({"hidden_size": 32}, "hidden_size = 32 is not supported; supported: "),
        ({"scorer_type": "mlp"}, "the checkpoint lacks model.scorer.mlp.0.weight"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_options_are_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    write_gliclass(tmp_path)
    config = tmp_path / "config.json"
    options = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**options, **changed}), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        Labeller(tmp_path)
