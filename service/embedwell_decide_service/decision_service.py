"""Probabilities of the answers to questions about one text, by a decision model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from embedwell.compute.request_limits import check_input_count
from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import run_in_thread
from embedwell.errors import BadRequest, NotOffered
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.model_registry import ModelChoice, ModelRegistry
from embedwell_decide import gliner_options
from embedwell_decide.gliner_rows import GlinerRows
from embedwell_decide.laya_rows import LayaRows
from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import Question, render
from embedwell_decide.rows import Ids, RowBuilder
from embedwell_models.output_names import DECISION
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.tokenizer.tokens import Token
from embedwell_models.vectors import Floats

_TASK = "category"
"""Task of candidate labels without an instruction."""
_TOKEN_BYTES = 64
"""Memory of a character's token while a request is read."""
_FEW_CHARACTERS = 1 << 13
"""So many are split into words in a few milliseconds."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question with the field of the request that has it, for errors."""

    question: Question
    field: str


@dataclass(frozen=True)
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
        options = InputOptions(truncate=True, side="left" if isinstance(state, list) else None)
        logits = await self.logits(context, [render(state)], asked, options)
        answers = zip(asked, logits, strict=True)
        return [
            self._rows.probabilities(each.question, values).tolist() for each, values in answers
        ]

    async def label_logits(
        self,
        context: RequestContext,
        texts: Sequence[str],
        labels: Sequence[str],
        options: InputOptions,
    ) -> Floats:
        """Return the logit of each label for each text: (texts, labels).

        options: the instruction names the task. Raises BadRequest for labels that do not fit.
        """
        check_input_count(len(texts), self.model.settings.max_texts)
        question = Question.choice(options.instruction or _TASK, [(it, None) for it in labels])
        length = self.model.reader.limited_length(options.max_pair, "truncate_prompt_tokens")
        asked = [AskedQuestion(question, "parameters.candidate_labels")]
        return np.array(await self.logits(context, texts, asked, options.with_max_length(length)))

    async def logits(
        self,
        context: RequestContext,
        states: Sequence[str],
        asked: Sequence[AskedQuestion],
        options: InputOptions,
    ) -> list[Floats]:
        """Return the logits of the options of each question about each text, as the model has them.

        options: of the truncation. Raises BadRequest for a question whose options do not fit.
        """
        rows = await self._read(context, states, asked, options)
        self.model.reader.count(context, rows)
        outputs = await self.model.pipeline.compute_outputs(context, rows, [DECISION])
        return [output.multi[:, 0] for output in outputs if output.multi is not None]

    @cached_property
    def _rows(self) -> RowBuilder:
        description, reader = self.model.description, self.model.reader
        if description.spec.config.family == gliner_options.MODEL_TYPE:
            return GlinerRows(reader.max_length)
        options = DecisionOptions.read(description.encoder)
        return LayaRows.of(options, reader.special_id, self.model.token_name)

    def _check_offered(self) -> None:
        if DECISION in self.model.description.outputs:
            return
        if self.model.description.classifier is not None:
            error = NotOffered.by_classifier(self.model.description.classifier.reranks)
            raise NotOffered(
                error.message.replace("does not embed", "makes no decisions"), offered=error.offered
            )
        raise NotOffered("this model makes no decisions", offered=self.model.description.outputs)

    async def _read(
        self,
        context: RequestContext,
        states: Sequence[str],
        asked: Sequence[AskedQuestion],
        options: InputOptions,
    ) -> list[InputRow]:
        """Build the row of each question about each text; raises BadRequest."""
        keep_end = options.side == "left"
        characters = sum(map(len, states))
        context.memory.grow(_TOKEN_BYTES * characters)
        split = partial(self._rows.state_texts, keep_end=keep_end)
        texts = await run_in_thread(
            lambda: [split(state) for state in states], small=characters <= _FEW_CHARACTERS
        )
        parts = [self._rows.question_texts(each.question) for each in asked]
        ids = await self._ids(context, chain(*texts, *parts))
        read = ([ids[part] for part in own] for own in parts)
        questions = [*zip(asked, read, strict=True)]
        return [
            self._row(index, question, [ids[part] for part in own], options)
            for index, own in enumerate(texts)
            for question in questions
        ]

    def _row(
        self,
        index: int,
        question: tuple[AskedQuestion, Sequence[Ids]],
        state: Sequence[Ids],
        options: InputOptions,
    ) -> InputRow:
        asked, ids = question
        length = options.max_length or self._rows.max_length
        row = self._rows.row(ids, state, keep_end=options.side == "left", max_length=length)
        if row is None:
            raise BadRequest(
                f"{asked.field} has {len(asked.question.options)} options, which do not fit into "
                f"the {length} tokens that the model reads; give fewer",
                param=asked.field,
            )
        return self.model.reader.checked_row(index, row.ids, row.dropped, options)

    async def _ids(self, context: RequestContext, texts: Iterable[str]) -> dict[str, list[int]]:
        """Return the token ids of each different text."""

        def describe(_: str, tokens: list[Token]) -> list[int]:
            return [token.id for token in tokens]

        different = [*dict.fromkeys(texts)]
        ids = await self.model.reader.all_tokens(
            context,
            different,
            InputOptions(prompt="", any_count=True),
            special=False,
            describe=describe,
            bytes_per_character=_TOKEN_BYTES,
        )
        return dict(zip(different, ids, strict=True))
