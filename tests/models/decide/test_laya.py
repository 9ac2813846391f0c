"""Laya against the authors' own code, on random weights."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import laya
import numpy as np
import pytest
from laya.common import build_sequence

from embedwell_decide.laya_rows import LayaRows
from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import Question, render
from embedwell_decide.rows import DecisionRow
from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from embedwell_models.outputs.names import DECISION
from embedwell_models.tokenizer.steps import run_to_completion
from tests.models.laya_model import OPTIONS, write_laya

STATES: list[Any] = [
    "the work of the author is not a license to copy any of it",
    "",
    {"from": "a user", "body": "not [MASK] for <mask>you", "count": 3},
    [{"role": "user", "content": "such work " * 40}, {"role": "assistant", "content": "by any"}],
    "to be of use " * 60,
]
MANY = {f"name {i}": "for any work " * 12 for i in range(6)}
QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": {"type": "choice", "instructions": "is it", "criteria": {"the": "a", "of": None}},
    "empty": {
        "type": "choice",
        "instructions": "[MASK] it<mask>",
        "criteria": {"x": "", "y": {"a": 1}},
    },
    "many": {"type": "choice", "instructions": "which of these " * 9, "criteria": MANY},
    "levels": {"type": "score", "instructions": {"how": "much"}, "criteria": ["a", "b", "to", {}]},
    "true": {"type": "noul", "instructions": "this is so"},
    "told": {"type": "noul", "instructions": "so", "criteria": {"true": "by", "false": ["x"]}},
}


def question_of(body: dict[str, Any]) -> Question:
    criteria: Any = body.get("criteria") or {}
    if body["type"] == "choice":
        return Question.choice(body["instructions"], [*criteria.items()])
    if body["type"] == "score":
        return Question.score(body["instructions"], [(level, None) for level in criteria])
    return Question.noul(body["instructions"], criteria.get("true"), criteria.get("false"))


class Decider:
    """Our model, with the rows that it reads."""

    def __init__(self, folder: Path, cache: Path) -> None:
        linked = resolve(str(folder), cache=cache)
        self.description = ModelDescription.read(linked)
        self.embedder = Embedder.load(str(linked), dtype="float32")
        self.options = DecisionOptions.read(linked)
        self.tokenizer = self.description.tokenizer()
        self.rows = LayaRows.of(self.options, self.tokenizer.special_id, self.tokenizer.name)

    def ids(self, texts: list[str]) -> list[list[int]]:
        return [[*run_to_completion(self.tokenizer.ids_without_special(text))] for text in texts]

    def row(self, question: Question, state: Any) -> DecisionRow:
        asked = self.ids(self.rows.question_texts(question))
        text = self.ids(self.rows.state_texts(render(state)))
        row = self.rows.row(asked, text, keep_end=isinstance(state, list))
        assert row is not None
        return row

    def logits(self, rows: list[list[int]]) -> list[np.ndarray[Any, Any]]:
        outputs = self.embedder.outputs([np.array(row) for row in rows], [DECISION])
        return [output.multi[:, 0] for output in outputs if output.multi is not None]


@pytest.fixture(scope="module", params=[False, True], ids=["laya", "laya-multilingual"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("laya")
    return write_laya(parent / "laya", multilingual=request.param)


@pytest.fixture(scope="module")
def agent(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # From a copy, because the authors' code rewrites files of the tokenizer.
    copy = shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "laya")
    with pytest.warns(RuntimeWarning, match="invalid temperatures"):
        agent = laya.load(str(copy), device="cpu")
    agent.model.double()  # the reference
    yield agent


@pytest.fixture(scope="module")
def decider(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Decider:
    return Decider(folder, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("state", STATES, ids=["text", "empty", "object", "conversation", "long"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_row_is_that_of_the_authors(agent: Any, decider: Decider, name: str, state: Any) -> None:
    internal, lengths = (
        agent._to_internal(QUESTIONS[name]),
        (OPTIONS["max_len"], OPTIONS["head_max_len"]),
    )
    expected, _, dropped = build_sequence(
        *(agent.tok, state, internal, *lengths),
        truncate_left=isinstance(state, list),
        return_truncation_stats=True,
    )
    row = decider.row(question_of(QUESTIONS[name]), state)
    assert (row.ids, row.dropped) == (expected, dropped["state_tokens_dropped"])


@pytest.mark.parametrize("state", STATES[::2], ids=["text", "object", "long"])
def test_probabilities_are_those_of_the_authors(agent: Any, decider: Decider, state: Any) -> None:
    expected = agent.system_one(state, QUESTIONS)["answers"]
    questions = {name: question_of(body) for name, body in QUESTIONS.items()}
    rows = [decider.row(question, state).ids for question in questions.values()]
    for (name, question), logits in zip(questions.items(), decider.logits(rows), strict=True):
        ours = decider.rows.probabilities(question, logits)
        answer = expected[name]
        theirs = [*answer["probabilities"].values()] if "probabilities" in answer else None
        theirs = theirs or [1 - answer["noul"], answer["noul"]]
        np.testing.assert_allclose(ours, theirs, atol=2e-4)  # theirs are rounded to 1e-4


def test_a_question_has_the_same_bytes_in_every_batch(decider: Decider) -> None:
    rows = [
        decider.row(question_of(body), state).ids for body in QUESTIONS.values() for state in STATES
    ]
    together = decider.logits(rows)
    alone = [decider.logits([row])[0] for row in rows]
    assert all(map(np.array_equal, together, alone))


def test_options_that_do_not_fit_have_no_row() -> None:
    options = DecisionOptions(layers=2, max_length=32, max_question=24, temperatures={}, by_size={})
    rows = LayaRows(options, cls=0, sep=1, mask=2, mask_name="[MASK]")
    assert rows.row([[5], *[[6] * 8] * 9], [[]]) is None
    assert rows.row([[5], *[[6] * 8] * 4], [[]]) is not None


def test_a_model_that_decides_has_no_other_outputs(decider: Decider) -> None:
    assert (decider.description.task, decider.description.outputs) == ("decide", (DECISION,))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"option_layout": "parallel"}, "option_layout 'parallel' is not supported"),
        ({"temperature": [1.0]}, "temperature = .* is not a list of 3 numbers"),
        ({"max_len": 0}, "max_len is not a whole number above 0"),
        ({"head_layers": 3}, "head.layers.2"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_other_options_are_refused(
    folder: Path, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    copy = tmp_path / "laya"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).symlink_to(path)
    options = copy / "rl_agent_config.json"
    options.unlink()
    options.write_text(json.dumps({**OPTIONS, **changed}), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        Decider(copy, tmp_path / "cache")


@pytest.mark.parametrize("missing", ["tokenizer/tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, tmp_path: Path, missing: str) -> None:
    copy = tmp_path / "laya"
    for path in folder.rglob("*"):
        target = copy / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.relative_to(folder).as_posix() != missing:
            target.symlink_to(path)
    with pytest.raises(ModelError, match=f"has no {Path(missing).name}"):
        resolve(str(copy), cache=tmp_path / "cache")
