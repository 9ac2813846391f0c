"""POST /predict and /classify: labels of texts and text pairs, as in TEI, Infinity and vLLM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag
from typing_extensions import TypedDict

from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, NotOffered
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import (
    FAIL_FAST,
    Body,
    TextInputs,
    TrueByDefault,
    examples,
    input_list,
)
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import PairBody, TokenLimit
from embedwell.routes.common.response_types import OpenAIUsage, token_usage
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.scores import (
    ScoreFunction,
    logits_to_scores,
    ranking,
)
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.common.vllm_fields import Message, VLLMFields, conversation
from embedwell_models.read.inputs import InputOptions, TextPair
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats

_Texts = Annotated[list[str], Field(min_length=1, max_length=2), FAIL_FAST]


def _inputs_kind(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "<batch>"
    return "<text>" if isinstance(value, str) else "<texts>"


PredictInputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[_Texts, Tag("<texts>")]
    | Annotated[list[_Texts], FAIL_FAST, Tag("<batch>")],
    Discriminator(_inputs_kind),
]
"""A text, a list of one or two texts (a pair), or a list of such lists."""


class PredictParameters(Body):
    """Options of Hugging Face's hosted models.

    - `top_k`: return only so many of the best labels. Default: all.
    - `function_to_apply`: function that converts the logits; `none` returns them. Default: the
      model's.
    """

    function_to_apply: ScoreFunction | None = None
    top_k: PositiveInt | None = None


class PredictRequest(PairBody):
    """Request body of /predict.

    - `inputs`: a text, a list of one or two texts (a pair), or a list of such lists.
    - `model`: name of a served model. Default: the first one that classifies.
    - `raw_scores`: whether scores are logits instead of probabilities. Default: false.
    - `parameters`: options of Hugging Face's clients. With it, the labels of a single input are
      also in a list.
    """

    model_config = examples(
        {"inputs": "I like it."},
        {"inputs": [["I like it."], ["It rained.", "It was dry."]], "raw_scores": True},
    )

    input_fields = ("inputs",)

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


class ClassifyRequest(VLLMFields):
    """Request body of /classify: a text, its token ids, or a list of these.

    - `raw_scores`: sent by Infinity's clients: whether scores are logits. With it, the response has
      Infinity's format, otherwise vLLM's. Default: false.
    - `use_activation`, `activation`: vLLM's fields: whether scores are probabilities; false for
      logits. Default: true.
    - `truncate_prompt_tokens`: vLLM's maximum of tokens of a text, beyond which it is cut; -1 is
      the model's limit, the default.
    - `messages`: vLLM's, in place of `input`: one message with one text.
    - `add_special_tokens`: must be true or absent: texts always get the model's special tokens.
    - `input`: a text, its token ids, or a list of these.
    """

    model_config = examples(
        {"input": ["I like it.", "Never again."]},
        {"input": ["I like it."], "raw_scores": False},
        {"input": [[2, 45, 46, 3]], "truncate_prompt_tokens": -1},
    )

    input_fields = ("input", "messages")

    input: TextInputs | None = None
    messages: Annotated[list[Message], FAIL_FAST] | None = None
    add_special_tokens: Literal[True] | None = None
    model: str | None = None
    raw_scores: bool = False
    use_activation: TrueByDefault = True
    activation: TrueByDefault = True
    truncate_prompt_tokens: TokenLimit = None
    truncation_side: Side | None = None

    @property
    def wants_logits(self) -> bool:
        """Whether scores are logits."""
        return self.raw_scores or not (self.use_activation and self.activation)

    def input_options(self) -> InputOptions:
        """Build the tokenization options."""
        return PairBody(
            truncate_prompt_tokens=self.truncate_prompt_tokens,
            truncation_side=self.truncation_side,
        ).input_options()

    def inputs(self, model: str) -> list[Any]:
        """Return the texts or token ids; raises BadRequest. model: its name, for errors."""
        if self.messages is None:
            if self.input is None:
                raise BadRequest("input: Field required", param="input")
            return input_list(self.input)
        if self.input is not None:
            raise BadRequest("give either input or messages, not both", param="messages")
        text = conversation(self.messages, model).input
        if not isinstance(text, str):
            raise BadRequest("this model classifies texts only; send no images", param="messages")
        return [text]


@forbid_extra
class Labelled(TypedDict):
    """A label and its score.

    - `label`: name of the label in the model's files.
    - `score`: probability from 0 to 1, or the logit if the request asks for logits.
    """

    label: str
    score: float


Prediction = list[Labelled]
"""All labels, best first."""

Predictions = Prediction | list[Prediction]
"""Labels of one input, or of each input of a list."""


@forbid_extra
class Class(TypedDict):
    """The best label of a text, and the probabilities of all labels in the model's order.

    - `index`: position of the text in `input`, from 0.
    - `label`: name of the label with the highest probability.
    - `probs`: probability of each label, or its logit if the request asks for logits.
    - `num_classes`: number of labels of the model.
    """

    index: NonNegativeInt
    label: str
    probs: list[float]
    num_classes: NonNegativeInt


@forbid_extra
class Classes(TypedDict):
    """Response of /classify.

    - `data`: in Infinity's format for a request with `raw_scores`, otherwise in vLLM's.
    - `object`: `classify` in Infinity's format, otherwise `list`.
    """

    id: str
    object: Literal["list", "classify"]
    model: str
    data: list[Class] | list[Prediction]
    usage: OpenAIUsage


@dataclass(frozen=True)
class ClassificationService:
    """Labels texts and text pairs."""

    model: ServedModel

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
        self._reserve(context, len(texts))
        rows = await self.model.pairs.read(context, texts, options)
        logits = await self.model.pipeline.logits(context, rows)
        return logits_to_scores(function, logits, self.model.pipeline.classifier)

    async def label_scores(self, context: RequestContext, body: ClassifyRequest) -> Floats:
        """Return the scores of all labels for /classify: (B, labels)."""
        inputs = body.inputs(self.model.name)
        self._reserve(context, len(inputs))
        options = body.input_options()
        rows = await self.model.pairs.read_texts_or_ids(context, inputs, options)
        logits = await self.model.pipeline.logits(context, rows)
        function: ScoreFunction | None = "none" if body.wants_logits else None
        return logits_to_scores(function, logits, self.model.pipeline.classifier)

    def _reserve(self, context: RequestContext, inputs: int) -> None:
        """Reserve the memory of a response; raises BadRequest for a model without labels."""
        if self.model.description.listwise is not None:
            raise NotOffered.by_listwise_reranker()
        context.memory.grow_by_numbers(inputs * len(self.model.pipeline.classifier.labels))

    async def classify(self, context: RequestContext, body: ClassifyRequest) -> Classes:
        """Respond to /classify."""
        scores = await self.label_scores(context, body)
        labels = self.model.pipeline.classifier.labels
        infinity = "raw_scores" in body.model_fields_set
        return {
            "id": context.id,
            "object": "classify" if infinity else "list",
            "model": self.model.name,
            "data": [_labelled(row, labels) for row in scores]
            if infinity
            else [_best(index, row, labels) for index, row in enumerate(scores)],
            "usage": token_usage(context),
        }


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /predict and /classify."""
    models = registry.choice(ClassificationService, "classify", "rerank")
    routes = api_router("classify")

    @routes.post("/predict", summary="Label texts or text pairs")
    async def predict(context: RequestDep, body: PredictRequest) -> Predictions:
        service, single = models.choose(body.model), _inputs_kind(body.inputs) != "<batch>"
        items = [body.inputs] if single else body.inputs
        texts = [TextPair(*([item] if isinstance(item, str) else item)) for item in items]
        scores = await service.scores(context, texts, body.input_options(), body.function)
        labels, parameters = service.model.pipeline.classifier.labels, body.parameters
        top_k = None if parameters is None else parameters.top_k
        predictions = [_labelled(row, labels, top_k) for row in scores]
        return predictions[0] if single and parameters is None else predictions

    @routes.post("/classify", summary="Classify texts")
    async def classify(context: RequestDep, body: ClassifyRequest) -> Classes:
        return await models.choose(body.model).classify(context, body)

    return routes


def _labelled(scores: Floats, labels: Sequence[str], top_k: int | None = None) -> Prediction:
    """Return the labels with their scores, best first."""
    return [{"label": labels[i], "score": float(scores[i])} for i in ranking(scores, top_k)]


def _best(index: int, scores: Floats, labels: Sequence[str]) -> Class:
    return {
        "index": index,
        "label": labels[int(scores.argmax())],
        "probs": scores.tolist(),
        "num_classes": len(labels),
    }
