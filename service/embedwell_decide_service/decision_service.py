"""Probabilities of the answers to questions about one text, by a decision model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from embedwell.compute.request_limits import check_input_count
from embedwell.compute.served_model import ServedModel
from embedwell.errors import NotOffered
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.server_state import ModelChoice, ModelRegistry
from embedwell_decide import gliner_options
from embedwell_decide.gliner_rows import GlinerRows
from embedwell_decide.laya_rows import LayaRows
from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import Question, render
from embedwell_decide.rows import RowBuilder
from embedwell_decide_service.decision_reader import AskedQuestion, DecisionReader
from embedwell_models.outputs.names import DECISION
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats

_TASK = "category"
"""Task of candidate labels without an instruction."""


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
            self._builder.probabilities(each.question, values).tolist() for each, values in answers
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
        reader = DecisionReader(self.model.reader, self._builder)
        rows = await reader.read(context, states, asked, options)
        outputs = await self.model.pipeline.compute_outputs(context, rows, [DECISION])
        return [output.multi[:, 0] for output in outputs if output.multi is not None]

    @cached_property
    def _builder(self) -> RowBuilder:
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
