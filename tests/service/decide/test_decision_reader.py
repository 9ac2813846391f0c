"""Tests of reading questions, by a builder of rows whose steps the test controls."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.request_reader import RequestReader
from embedwell.errors import BadRequest, TooLarge
from embedwell_decide.questions import Question
from embedwell_decide.rows import DecisionRow, Ids
from embedwell_decide_service.decision_reader import AskedQuestion, DecisionReader
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats
from tests.service.pipelines import CountingTokenizer, reader_with

LARGE, SMALL = "large words " * 2000, "small"
ASKED = [AskedQuestion(Question.noul("is it", name=name), name) for name in "ab"]
CUT = InputOptions(truncate=True)


@dataclass
class Gate:
    """Waits at a step of the large text until the test has seen that others continue."""

    step: str
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def wait(self, step: str, *, large: bool) -> None:
        if large and step == self.step and not self.reached.is_set():
            self.reached.set()
            assert self.opened.wait(timeout=60), f"{step} holds up other requests"


@dataclass
class Builder:
    """Builds rows of a text's words, at most 256."""

    gate: Gate
    max_length: int = 256
    built: int = 0

    def state_texts(self, state: str, *, keep_end: bool = False) -> list[str]:
        self.gate.wait("state_texts", large=state == LARGE)
        return state.split()[: self.max_length]

    def question_texts(self, question: Question) -> list[str]:
        self.gate.wait("question_texts", large=len(question.instructions) > len(SMALL))
        return [question.instructions]

    def row(
        self,
        question: Sequence[Ids],
        state: Sequence[Ids],
        *,
        keep_end: bool = False,
        max_length: int | None = None,
    ) -> DecisionRow | None:
        self.gate.wait("row", large=len(state) > 1)
        self.built += 1
        ids = [id for part in (*question, *state) for id in part]
        return DecisionRow(ids[:max_length], len(ids[max_length:]))

    def probabilities(self, question: Question, logits: Floats) -> Any:
        return np.ones(len(logits))


@pytest.mark.parametrize("step", ["state_texts", "question_texts", "row"])
def test_a_large_request_is_read_while_others_are(reader: RequestReader, step: str) -> None:
    gate = Gate(step)
    decisions = DecisionReader(reader, Builder(gate))
    large = AskedQuestion(Question.noul(LARGE if step == "question_texts" else "is it"), "c")

    async def run() -> None:
        reading = asyncio.create_task(decisions.read(RequestCosts(), [LARGE], [large], CUT))
        await asyncio.to_thread(gate.reached.wait)
        (row,) = await decisions.read(RequestCosts(), [SMALL], ASKED[:1], CUT)
        assert not reading.done() and row.tokens
        gate.opened.set()
        assert len(await reading) == 1

    asyncio.run(run())


def test_a_request_has_the_costs_of_its_rows(reader: RequestReader) -> None:
    costs = RequestCosts()
    rows = asyncio.run(DecisionReader(reader, Builder(Gate(""))).read(costs, [LARGE], ASKED, CUT))
    assert (len(rows), costs.texts, costs.tokens, costs.truncated) == (2, 2, 512, 2)
    assert costs.tokenize_us and costs.memory.size > len(LARGE)


def test_no_more_rows_are_built_than_a_request_may_have_tokens(
    counting: CountingTokenizer,
) -> None:
    builder, limited = Builder(Gate("")), reader_with(counting, max_tokens=600)
    with pytest.raises(TooLarge, match="has 768 tokens or more, but the limit is 600"):
        asyncio.run(DecisionReader(limited, builder).read(RequestCosts(), [LARGE], ASKED * 50, CUT))
    assert builder.built == 3


def test_an_unbroken_text_is_refused_without_the_number_of_its_word(reader: RequestReader) -> None:
    texts, decisions = [SMALL, "x" * 1_000_000], DecisionReader(reader, Builder(Gate("")))
    with pytest.raises(BadRequest, match=r"^more than [0-9]+ characters in a row"):
        asyncio.run(decisions.read(RequestCosts(), texts, ASKED, CUT))
