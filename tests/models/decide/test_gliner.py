"""GLiNER2 against the authors' own code, on random weights."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_decide.gliner_rows import GlinerRows, labels_of, words
from embedwell_decide.questions import Question
from embedwell_decide.rows import DecisionRow
from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from embedwell_models.outputs.names import DECISION, LABELS
from embedwell_models.tokenizer.steps import run_to_completion
from tests.models.gliner_model import AutoExtractor, word_splitter, write_gliner

TEXTS = {
    "plain": "The work of the author is not a license to copy any of it",
    "empty": "",
    "ended": "By such!",
    "addresses": "see https://Any.Work/of?x=1 or www.x.y, a.b@c.work, @by_such and work-of_any.",
    "markers": "a [L] work [SEP_TEXT] is[P] not ( [MASK] ) by",
    "letters": "ΟΔΟΣ İstanbul हिन्दी e\u0301te\u0301 a\u200db \U0001f642 日本 ſK",
    "long": "to be of use " * 60,
}
OPTIONS = {"work": "for (any) of it", "any license": None, "not (by) this": "such"}
QUESTIONS: dict[str, Question] = {
    "choice": Question.choice("which of any", [*OPTIONS.items()], "the work"),
    "bare": Question.choice("", [("the", None), ("of", "")], "author"),
    "one": Question.choice("is it", [("the", None)]),
    "score": Question.score("how much", [("to", None), ("be", "the use"), ("of", None)]),
    "noul": Question.noul("this is so", "by such", name="is it"),
}


class Decider:
    """Our model, with the rows that it reads."""

    def __init__(self, folder: Path, cache: Path, max_length: int = 2048) -> None:
        linked = resolve(str(folder), cache=cache)
        self.description = ModelDescription.read(linked)
        self.embedder = Embedder.load(str(linked), dtype="float32")
        self.tokenizer = self.embedder.tokenizer
        self.rows = GlinerRows(max_length)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*run_to_completion(self.tokenizer.ids_without_special(text))] for text in texts]

    def row(self, question: Question, text: str, **options: Any) -> DecisionRow | None:
        state = self.ids(self.rows.state_texts(text, keep_end=options.get("keep_end", False)))
        return self.rows.row(self.ids(self.rows.question_texts(question)), state, **options)

    def row_ids(self, question: Question, text: str) -> list[int]:
        row = self.row(question, text)
        assert row is not None
        return row.ids

    def logits(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray[Any, Any]]:
        outputs = self.embedder.outputs([np.array(row) for row in rows], [DECISION])
        return [output.multi[:, 0] for output in outputs if output.multi is not None]


class Authors:
    """The authors' model, in float64, with what it reads and computes."""

    def __init__(self, folder: Path) -> None:
        self.model: Any = AutoExtractor.from_pretrained(str(folder)).double()
        head = getattr(self.model, "boundary_settings", None)
        self.temperature = 1.0 if head is None else head.classification_temperature
        self.ids: list[int] = []
        self.logits: Any = None
        self.model.encoder.register_forward_pre_hook(self._keep_ids, with_kwargs=True)
        self.model.classifier.register_forward_hook(self._keep_logits)

    def classify(self, question: Question, text: str, **options: Any) -> Mapping[str, Any]:
        """Return the answer as the authors' code has it. options: of `classify_text`."""
        labels = labels_of(question)
        task: dict[str, Any] = {"labels": [each.label for each in labels]}
        task["label_descriptions"] = {each.label: each.about for each in labels if each.about}
        if question.name and question.instructions:
            task["prompt"] = question.instructions
        name = question.name or question.instructions
        answer = self.model.classify_text(text, {name: task}, include_confidence=True, **options)
        found: Mapping[str, Any] = answer[name]
        return found

    def _keep_ids(self, _module: Any, _args: Any, named: Any) -> None:
        self.ids = named["input_ids"][0].tolist()

    def _keep_logits(self, _module: Any, _args: Any, output: Any) -> None:
        self.logits = output.squeeze(-1).numpy()


@pytest.fixture(scope="module", params=["span", "boundary"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, Any] = {}
    if request.param == "boundary":
        options["boundary_head"] = {"classification_temperature": 1.7}
    return write_gliner(tmp_path_factory.mktemp("gliner") / "gliner", request.param, **options)


@pytest.fixture(scope="module")
def authors(folder: Path) -> Authors:
    return Authors(folder)


@pytest.fixture(scope="module")
def decider(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Decider:
    return Decider(folder, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_and_probabilities_are_those_of_the_authors(
    authors: Authors, decider: Decider, name: str, text: str
) -> None:
    question, temperature = QUESTIONS[name], authors.temperature
    answer = authors.classify(question, TEXTS[text])
    row = decider.row_ids(question, TEXTS[text])
    assert row == authors.ids
    (logits,) = decider.logits([row])
    np.testing.assert_allclose(logits, authors.logits / temperature, rtol=2e-4, atol=2e-4)
    ours = decider.rows.probabilities(question, logits)
    labels = [each.label for each in labels_of(question)]
    labels = labels[::-1] if question.kind == "noul" else labels
    assert labels[int(ours.argmax())] == answer["label"]
    assert ours.max() == pytest.approx(answer["confidence"], abs=1e-4)


def test_a_question_has_the_same_bytes_in_every_batch(decider: Decider) -> None:
    rows = [decider.row_ids(each, text) for each in QUESTIONS.values() for text in TEXTS.values()]
    together = decider.logits(rows)
    alone = [decider.logits([row])[0] for row in rows]
    assert all(map(np.array_equal, together, alone))


def test_a_long_text_loses_whole_words_as_the_authors_cut_it(
    authors: Authors, decider: Decider
) -> None:
    question, text = QUESTIONS["choice"], "any authority to be copying " * 30
    whole, lengths = decider.row_ids(question, text), [*map(len, decider.ids([*words(text)]))]
    before = len(whole) - sum(lengths)
    kept = next(n for n in range(len(lengths)) if before + sum(lengths[: n + 1]) > 90)
    authors.classify(question, text, max_len=kept)
    row = decider.row(question, text, max_length=90)
    assert row == DecisionRow(authors.ids, len(whole) - len(authors.ids))
    assert kept
    end = decider.row(question, text, max_length=90, keep_end=True)
    assert end is not None
    assert end.ids == [*whole[:before], *whole[before - len(end.ids) :]]
    assert len(whole) - len(end.ids) == end.dropped


def test_no_more_words_are_read_than_a_row_can_hold() -> None:
    rows = GlinerRows(max_length=3)
    assert rows.state_texts("a b c d e f") == ["a", "b", "c", "d"]
    assert rows.state_texts("a b c d e f", keep_end=True) == ["d", "e", "f", "."]


def test_the_end_of_a_long_text_has_the_words_of_the_whole() -> None:
    text = " ".join(TEXTS.values()).rstrip(".!?") + " a.b@c.de  "
    for most in range(30):
        end = GlinerRows(max_length=most).state_texts(text, keep_end=True)
        assert end == [*words(text)][-most - 1 :]
    assert GlinerRows(max_length=9).state_texts("", keep_end=True) == ["."]


def test_a_text_without_white_space_is_read_in_linear_time() -> None:
    assert sum(1 for _ in words("a." * 100_000)) == 200_000  # minutes, if an address had no limit
    assert [*words(f"{'a' * 64}@b.cd.")] == [f"{'a' * 64}@b.cd", "."]
    assert [*words(f"{'a' * 65}@b.cd.")] == ["a" * 65, "@b", ".", "cd", "."]
    end = GlinerRows(max_length=2).state_texts("ab" * 1000, keep_end=True)
    assert list(map(len, end)) == [3 * 64 - 1, 1]


def test_options_that_do_not_fit_have_no_row(decider: Decider) -> None:
    ids = decider.ids(decider.rows.question_texts(QUESTIONS["choice"]))
    most = sum(map(len, ids))
    assert decider.rows.row(ids, [], max_length=most - 1) is None
    row = decider.rows.row(ids, [[5]], max_length=most)
    assert row == DecisionRow([*chain(*ids)], 1)


def test_markers_are_not_read_in_a_question(decider: Decider) -> None:
    options = [("a[L]b", "[P] c"), ("d [DESCRIPTION]", None)]
    spaced = [("a b", "  c"), ("d  ", None)]
    marked = decider.row_ids(Question.choice("x [SEP_TEXT] y", options, "[L]"), "it")
    assert marked == decider.row_ids(Question.choice("x   y", spaced, " "), "it")


def test_every_character_is_of_the_same_word_as_with_the_authors() -> None:
    every = (chr(code) for code in range(0x20, 0x110000) if not 0xD800 <= code < 0xE000)
    marks = list[str]()
    for category, characters in groupby(every, unicodedata.category):
        alike = [*characters]
        if len(alike) > 10_000:  # whole planes that are not assigned, or are private
            alike = [*alike[:9], *alike[9:-9:999], *alike[-9:]]
        marks += [it for it in alike if category[0] in "MC" or not it.isalnum()]
    text = " ".join(f"a{it}b" for it in marks) + " a--b _x_ -x- a-b_c http:// WWW.x a@b.c a@b @"
    ours, theirs = [*words(f"{text}.")], [word for word, *_ in word_splitter()(f"{text}.")]
    assert ours == theirs


def test_a_model_decides_and_labels(decider: Decider) -> None:
    assert decider.description.task == "decide"
    assert decider.description.outputs == (DECISION, LABELS)


@pytest.mark.parametrize(
    ("file", "changed", "message"),
    [
        ("config.json", {"architecture": "other"}, "architecture = 'other' is not supported"),
        ("config.json", {"model_type": "bert"}, "model_type = 'bert' is not supported"),
        ("encoder_config/config.json", {"model_type": "bert"}, "model_type 'bert' is not"),
        (
            "config.json",
            {"architecture": "boundary", "boundary_head": {"classification_temperature": 0}},
            "classification_temperature = 0 is not a number above 0",
        ),
        ("config.json", {"architecture": "boundary"}, "unknown tensor .*count_embed"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_other_options_are_refused(
    tmp_path: Path, file: str, changed: dict[str, Any], message: str
) -> None:
    folder = write_gliner(tmp_path / "gliner")
    options = json.loads((folder / file).read_text(encoding="utf-8"))
    (folder / file).write_text(json.dumps({**options, **changed}), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        Decider(folder, tmp_path / "cache")


@pytest.mark.parametrize("missing", ["tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = write_gliner(tmp_path / "gliner")
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=f"has no {missing}"):
        resolve(str(folder), cache=tmp_path / "cache")


def test_a_tokenizer_without_markers_is_refused(tmp_path: Path) -> None:
    folder = write_gliner(tmp_path / "gliner")
    for file in folder.glob("tokenizer*.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("[L]", "[X]"), encoding="utf-8")
    with pytest.raises(ModelError, match=r"has no token \[L\]"):
        Decider(folder, tmp_path / "cache")
