"""POST /zero-shot-classification: candidate labels for texts, by GLiClass, GLiNER2, or inference.

A model of inference (NLI) says whether a text entails "This example is LABEL.": Yin et al. 2019,
arXiv 1909.00161. The scores are those of transformers' pipeline; of the others, those of their own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from embedwell.compute.request_limits import check_input_count
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, NotOffered, service_errors
from embedwell.http.request_context import RequestContext
from embedwell.routes.classify import Prediction, Predictions
from embedwell.routes.common.body import FAIL_FAST, Body, Texts, examples, text_list
from embedwell.routes.common.options import PairBody
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.scores import ranking, sigmoid, softmax
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_decide_service.decision_service import DecisionService
from embedwell_decide_service.label_service import LabelService
from embedwell_models.outputs.names import DECISION, LABELS
from embedwell_models.read.inputs import InputOptions, TextPair
from embedwell_models.vectors import Floats

_ENTAILMENT = "entail"  # beginning of the label
_TEMPLATE = "This example is {}."
_PLACE = "{}"


class ZeroShotParameters(Body):
    """Options of the classification.

    - `candidate_labels`: the labels, at least one.
    - `multi_label`: whether several labels can hold, so that each has a probability of its own.
      Default: false, and the probabilities sum to 1.
    - `hypothesis_template`: the sentence that the text entails if a label holds, with `{}` in place
      of the label. Default: that this example is the label; for GLiClass and
      GLiNER2, the label alone.
    """

    candidate_labels: Annotated[
        list[Annotated[str, Field(min_length=1)]], Field(min_length=1), FAIL_FAST
    ]
    multi_label: bool | None = None
    hypothesis_template: str | None = None


class ZeroShotRequest(PairBody):
    """Request body of /zero-shot-classification.

    - `inputs`: a text or a list of texts.
    - `parameters`: the labels.
    - `model`: name of a served model. Default: the first GLiClass or GLiNER2, else the first
      one that classifies.
    """

    model_config = examples(
        {
            "inputs": "I like my new phone.",
            "parameters": {"candidate_labels": ["mobile", "billing"]},
        }
    )

    input_fields = ("inputs",)

    inputs: Texts
    parameters: ZeroShotParameters
    model: str | None = None

    def pairs(self) -> list[TextPair]:
        """Return each text with the sentence of each label; raises BadRequest."""
        sentences = self.sentences(_TEMPLATE)
        return [TextPair(text, it) for text in text_list(self.inputs) for it in sentences]

    def sentences(self, default: str) -> list[str]:
        """Return the sentence of each label; raises BadRequest. default: the template."""
        template = self.parameters.hypothesis_template or default
        if _PLACE not in template:
            raise BadRequest(
                f"hypothesis_template has no {_PLACE} for the label, as {_TEMPLATE!r} has",
                param="parameters",
            )
        return [template.replace(_PLACE, it, 1) for it in self.parameters.candidate_labels]


@dataclass(frozen=True)
class ZeroShotService:
    """Classifies texts by one model."""

    model: ServedModel

    async def scores(self, context: RequestContext, body: ZeroShotRequest) -> Floats:
        """Return the score of each label: (texts, labels).

        Raises NotOffered for a model without a label for entailment.
        """
        if LABELS in self.model.description.outputs:
            return await self._label_scores(context, body)
        entailment, contradiction = self._columns()
        count = len(text_list(body.inputs)) * len(body.parameters.candidate_labels)
        check_input_count(count, self.model.settings.max_texts)  # before there are so many pairs
        pairs, options = body.pairs(), body.input_options()
        logits = await self._logits(context, pairs, options)
        each = logits.reshape(-1, len(body.parameters.candidate_labels), logits.shape[1])
        if body.parameters.multi_label or each.shape[1] == 1:
            both = softmax(logits[:, [contradiction, entailment]])[:, 1]
            return both.reshape(each.shape[:2])
        return softmax(each[:, :, entailment])

    async def _label_scores(self, context: RequestContext, body: ZeroShotRequest) -> Floats:
        labels, options = body.sentences(_PLACE), body.input_options()
        with service_errors():
            options.check_no_windows()
        texts = text_list(body.inputs)
        logits = await self._label_service.label_logits(context, texts, labels, options)
        alone = body.parameters.multi_label or len(labels) == 1
        return sigmoid(logits) if alone else softmax(logits)

    @cached_property
    def _label_service(self) -> DecisionService | LabelService:
        decides = DECISION in self.model.description.outputs
        return (DecisionService if decides else LabelService)(self.model)

    async def _logits(
        self, context: RequestContext, pairs: list[TextPair], options: InputOptions
    ) -> Floats:
        context.memory.grow_by_numbers(len(pairs))
        rows = await self.model.pairs.read(context, pairs, options)
        return await self.model.pipeline.logits(context, rows)

    def _columns(self) -> tuple[int, int]:
        # The labels of entailment and of contradiction, as transformers' pipeline finds them.
        labels = self.model.pipeline.classifier.labels
        starts = [label.lower().startswith(_ENTAILMENT) for label in labels]
        entailment = starts.index(True) if True in starts else None
        if entailment is None or self.model.description.listwise is not None:
            raise NotOffered(
                "this model has no label for entailment, which candidate labels need; serve a "
                "model of inference (NLI), GLiClass or GLiNER2"
            )
        return entailment, len(labels) - 1 if entailment == 0 else 0


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /zero-shot-classification."""
    models = registry.choice(ZeroShotService, LABELS, "classify")
    routes = api_router("classify")

    @routes.post(
        "/zero-shot-classification",
        summary="Label texts by candidate labels (NLI, GLiClass, GLiNER2)",
    )
    async def zero_shot(context: RequestDep, body: ZeroShotRequest) -> Predictions:
        scores = await models.choose(body.model).scores(context, body)
        labels = body.parameters.candidate_labels
        results: list[Prediction] = [
            [{"label": labels[i], "score": float(row[i])} for i in ranking(row, None)]
            for row in scores
        ]
        return results[0] if isinstance(body.inputs, str) else results

    return routes
