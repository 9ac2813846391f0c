"""Probabilities of the answers to questions about one text, by a decision model."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from embedwell.errors import BadRequest, NotOffered
from embedwell.http.request_context import RequestContext
from embedwell.inference.served_model import ServedModel
from embedwell.routes.common.model_registry import ModelChoice, ModelRegistry
from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import Question, RowFormat, render
from embedwell_models.output_names import DECISION
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.records import record
from embedwell_models.tokenizer.tokens import Token

_TOKEN_BYTES = 64
"""Memory of a character's token while a request is read."""


@record
class AskedQuestion:
    """A question with the field of the request that has it, for errors."""

    question: Question
    field: str


@record
class DecisionService:
    """Answers questions by one model."""

    model: ServedModel

    @classmethod
    def choice(cls, registry: ModelRegistry) -> "ModelChoice[DecisionService]":
        """Choose among the models; by default the first one that decides."""
        return registry.choice(cls, DECISION)

    async def probabilities(
        self, context: RequestContext, state: Any, asked: Sequence[AskedQuestion]
    ) -> list[list[float]]:
        """Return the probability of each option of each question.

        state: a text, or other JSON. A list is a conversation, which loses its beginning if it is
        too long; other states lose their end.

        Raises BadRequest for a question whose options do not fit, and NotOffered for a model that
        makes no decisions.
        """
        self._check_offered()
        rows = await self._rows(context, state, asked)
        outputs = await self.model.pipeline.compute_outputs(context, rows, [DECISION])
        answers = []
        for each, output in zip(asked, outputs, strict=True):
            assert output.multi is not None
            values = self._options.probabilities(each.question.kind, output.multi[:, 0])
            answers.append(values.tolist())
        return answers

    @cached_property
    def _options(self) -> DecisionOptions:
        return DecisionOptions.read(self.model.description.encoder)

    @cached_property
    def _format(self) -> RowFormat:
        return self._options.row_format(self.model.reader.special_id)

    def _check_offered(self) -> None:
        if self.model.description.outputs == (DECISION,):
            return
        if self.model.description.classifier is not None:
            error = NotOffered.by_classifier(self.model.description.classifier.reranks)
            raise NotOffered(
                error.message.replace("does not embed", "makes no decisions"), offered=error.offered
            )
        raise NotOffered("this model makes no decisions", offered=self.model.description.outputs)

    async def _rows(
        self, context: RequestContext, state: Any, asked: Sequence[AskedQuestion]
    ) -> list[InputRow]:
        """Build the row of each question; raises BadRequest for one whose options do not fit."""
        questions = [each.question for each in asked]
        text, *others = await self._ids(context, [render(state), *_texts(questions)])
        ids, rows = iter(others), list[InputRow]()
        for each in asked:
            heading, options = next(ids), [next(ids) for _ in each.question.options]
            row = self._format.row(heading, options, text, keep_end=isinstance(state, list))
            if row is None:
                raise BadRequest(
                    f"{each.field} has {len(options)} options, which do not fit into the "
                    f"{self._format.max_length} tokens that the model reads; give fewer",
                    param=each.field,
                )
            rows.append(InputRow(np.array(row.ids, dtype=np.int32), row.dropped))
        self.model.reader.count(context, rows)
        return rows

    async def _ids(self, context: RequestContext, texts: Sequence[str]) -> list[list[int]]:
        mask = self.model.token_name(self._format.mask)

        def describe(_: str, tokens: list[Token]) -> list[int]:
            return [token.id for token in tokens]

        return await self.model.reader.all_tokens(
            context,
            [text.replace(mask, " ") for text in texts],
            InputOptions(prompt="", any_count=True),
            special=False,
            describe=describe,
            bytes_per_character=_TOKEN_BYTES,
        )


def _texts(questions: Iterable[Question]) -> Iterator[str]:
    # An option follows its marker as a word follows another.
    for question in questions:
        yield question.heading
        yield from (f" {option}" for option in question.options)
