"""POST /predict and /classify: labels of texts and text pairs, as in TEI, Infinity and vLLM."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, Field, PositiveInt, Tag

from embedwell.api.body import FAIL_FAST, Body, Texts, TrueByDefault, examples, text_list
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.rerank_request import PairBody
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.rerank import Classes, Predictions
from embedwell.api.scores import ScoreFunction, labelled, logits_to_scores
from embedwell.api.token_usage import token_usage
from embedwell.errors import BadRequest
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import InputOptions
from embedwell.inputs.text_pair import TextPair
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats

_Texts = Annotated[list[str], Field(min_length=1, max_length=2), FAIL_FAST]


def _item_kind(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<texts>"


def _inputs_kind(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "<batch>"
    return _item_kind(value)


PredictInputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[_Texts, Tag("<texts>")]
    | Annotated[list[_Texts], FAIL_FAST, Tag("<batch>")],
    Discriminator(_inputs_kind),
]
"""A text, a list of one or two texts (a pair), or a list of such lists."""


class PredictParameters(Body):
    """Options of Hugging Face's hosted models.

    - `top_k`: return only so many of the best labels.
    """

    function_to_apply: ScoreFunction | None = None
    top_k: PositiveInt | None = None


class PredictRequest(PairBody):
    """Request body of /predict.

    - `inputs`: a text, a list of one or two texts (a pair), or a list of such lists.
    - `model`: name of a served model. Default: the first one that classifies.
    - `raw_scores`: return logits instead of probabilities.
    - `parameters`: sent by clients of Hugging Face's hosted models. With it, the labels of a single
      input are also in a list.
    """

    model_config = examples(
        {"inputs": "I like it."},
        {"inputs": [["I like it."], ["It rained.", "It was dry."]], "raw_scores": True},
    )

    inputs: PredictInputs
    model: str | None = None
    raw_scores: bool = False
    parameters: PredictParameters | None = None

    @property
    def function(self) -> ScoreFunction | None:
        """Return the function for the logits; raises BadRequest if two fields select one."""
        function = self.parameters.function_to_apply if self.parameters is not None else None
        if function is not None and "raw_scores" in self.model_fields_set:
            raise BadRequest(
                "give either raw_scores or parameters.function_to_apply, not both",
                param="raw_scores",
            )
        return "none" if self.raw_scores else function


class ClassifyRequest(Body):
    """Request body of /classify.

    - `raw_scores`: sent by Infinity's clients. With it, the response has Infinity's format,
      otherwise vLLM's.
    """

    model_config = examples(
        {"input": ["I like it.", "Never again."]}, {"input": ["I like it."], "raw_scores": False}
    )

    input: Texts
    model: str | None = None
    raw_scores: bool = False
    use_activation: TrueByDefault = True


@dataclass(frozen=True)
class ClassificationService:
    """Labels texts and text pairs.

    name: the model's name in responses.
    """

    pipeline: Pipeline
    name: str

    async def scores(
        self,
        context: RequestContext,
        texts: list[TextPair],
        options: InputOptions,
        function: ScoreFunction | None,
    ) -> Floats:
        """Return the scores of all labels: (B, labels).

        function: see `logits_to_scores`.
        """
        classifier = self.pipeline.classifier
        context.memory.grow_by_numbers(len(texts) * len(classifier.labels))
        _, logits = await self.pipeline.score(context, texts, options)
        return logits_to_scores(function, logits, classifier)

    async def classify(self, context: RequestContext, body: ClassifyRequest) -> Any:
        """Respond to /classify."""
        texts = [TextPair(text) for text in text_list(body.input)]
        raw = body.raw_scores or not body.use_activation
        scores = await self.scores(context, texts, InputOptions(), "none" if raw else None)
        labels = self.pipeline.classifier.labels
        infinity = "raw_scores" in body.model_fields_set
        data: list[Any] = [
            labelled(row, labels)
            if infinity
            else {
                "index": index,
                "label": labels[int(row.argmax())],
                "probs": row.tolist(),
                "num_classes": len(labels),
            }
            for index, row in enumerate(scores)
        ]
        return {
            "id": context.id,
            "object": "classify" if infinity else "list",
            "model": self.name,
            "data": data,
            "usage": token_usage(context),
        }


def router(models: ModelChoice[ClassificationService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("classify")

    @routes.post(
        "/predict",
        summary="Label texts or text pairs",
        response_model=Predictions,
        responses=route_responses(),
    )
    async def predict(context: Context, body: PredictRequest) -> Any:
        service, single = models.choose(body.model), _inputs_kind(body.inputs) != "<batch>"
        items = [body.inputs] if single else body.inputs
        texts = [TextPair(*([item] if isinstance(item, str) else item)) for item in items]
        scores = await service.scores(context, texts, body.input_options(), body.function)
        labels, parameters = service.pipeline.classifier.labels, body.parameters
        top_k = None if parameters is None else parameters.top_k
        predictions = [labelled(row, labels, top_k) for row in scores]
        return predictions[0] if single and parameters is None else predictions

    @routes.post(
        "/classify",
        summary="Classify texts",
        response_model=Classes,
        responses=route_responses(),
    )
    async def classify(context: Context, body: ClassifyRequest) -> Any:
        return await models.choose(body.model).classify(context, body)

    return routes
