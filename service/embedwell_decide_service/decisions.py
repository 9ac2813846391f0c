"""POST /v1/decisions: OpenAI's Decisions API."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Discriminator, Field, NonNegativeInt, Tag
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.http.error_responses import OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST, Body, by_type, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_decide.questions import Question
from embedwell_decide_service import confidence
from embedwell_decide_service.conversation import Content, Items, content_text, conversation
from embedwell_decide_service.decision_reader import AskedQuestion
from embedwell_decide_service.decision_service import DecisionService

_MAX_QUESTIONS = 400


class _Question(Body):
    """Fields of every question.

    - `instructions`: the question or statement: a text, or a list of texts and JSON.
    - `name`: name of the question, which its answer repeats, and GLiNER2 reads.
    """

    instructions: Content
    name: str | None = None


class PredicateQuestion(_Question):
    """Question whether a statement is true.

    - `type`: always `predicate`.
    """

    type: Literal["predicate"]

    def question(self) -> Question:
        """Return the question as a model reads it."""
        return Question.noul(content_text(self.instructions, "instructions"), name=self.name)

    def answer(self, probabilities: Sequence[float]) -> "PredicateAnswer":
        """Return the answer by the probabilities of false and true."""
        return {"type": "predicate", "name": self.name, "probability": probabilities[1]}


class Option(Body):
    """An option of a choice.

    - `value`: the answer: a text, true or false.
    - `description`: what it means.
    """

    value: str | bool
    description: str | None = None


class ChoiceQuestion(_Question):
    """Question which of several options holds.

    - `type`: always `choice`.
    - `choices`: 2 to 255 options with different values.
    """

    type: Literal["choice"]
    choices: Annotated[list[Option], Field(min_length=2, max_length=255), FAIL_FAST]

    def question(self) -> Question:
        """Return the question as a model reads it; raises BadRequest for equal options."""
        if len({(type(each.value), each.value) for each in self.choices}) < len(self.choices):
            raise BadRequest("choices: each value must be unique", param="questions")
        options = [(_name(each.value), each.description) for each in self.choices]
        return Question.choice(
            content_text(self.instructions, "instructions"), options, name=self.name
        )

    def answer(self, probabilities: Sequence[float]) -> "ChoiceAnswer":
        """Return the answer by the probability of each option."""
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        values = [each.value for each in self.choices]
        return {
            "type": "choice",
            "name": self.name,
            "choice": values[best],
            "confidence": confidence.of_choice(probabilities),
            "probabilities": [
                {"value": value, "probability": probability}
                for value, probability in zip(values, probabilities, strict=True)
            ],
        }


class Level(Body):
    """A level of a scale.

    - `label`: its name.
    - `description`: what it means.
    """

    label: str
    description: str | None = None


class ScoreQuestion(_Question):
    """Question which level of a scale holds.

    - `type`: always `score`.
    - `levels`: 2 to 255 levels, the lowest first.
    """

    type: Literal["score"]
    levels: Annotated[list[Level], Field(min_length=2, max_length=255), FAIL_FAST]

    def question(self) -> Question:
        """Return the question as a model reads it."""
        levels = [(each.label, each.description) for each in self.levels]
        return Question.score(
            content_text(self.instructions, "instructions"), levels, name=self.name
        )

    def answer(self, probabilities: Sequence[float]) -> "ScoreAnswer":
        """Return the answer by the probability of each level."""
        return {
            "type": "score",
            "name": self.name,
            "score": confidence.expectation(probabilities),
            "confidence": confidence.of_score(probabilities),
            "probabilities": [
                {"label": level.label, "value": value, "probability": probability}
                for value, (level, probability) in enumerate(
                    zip(self.levels, probabilities, strict=True)
                )
            ],
        }


AnyQuestion = Annotated[PredicateQuestion | ChoiceQuestion | ScoreQuestion, Discriminator("type")]


class DecisionsRequest(Body):
    """Request body of /v1/decisions.

    - `input`: what the questions are about: a text, or a list of messages and tool calls, which
      loses its beginning if it is too long; a text loses its end.
    - `questions`: 1 to 400 questions, each of the type `predicate`, `choice` or `score`.
    - `prompt_cache_key`, `prompt_cache_options`, `safety_identifier`: OpenAI's; ignored.
    """

    model_config = examples(
        {
            "model": "laya",
            "input": "We were billed twice for March. Please refund the duplicate.",
            "questions": [
                {"type": "predicate", "instructions": "The customer wants a refund.", "name": "a"},
                {
                    "type": "choice",
                    "instructions": "Which team should answer?",
                    "choices": [
                        {"value": "billing", "description": "invoices and payments"},
                        {"value": "support"},
                    ],
                },
                {
                    "type": "score",
                    "instructions": "How urgent is this?",
                    "levels": [{"label": "low"}, {"label": "high", "description": "today"}],
                },
            ],
        }
    )

    input: Annotated[
        Annotated[str, Tag("<text>")] | Annotated[Items, Tag("<items>")],
        by_type({str: "<text>"}, "<items>"),
    ]
    questions: Annotated[
        list[AnyQuestion], Field(min_length=1, max_length=_MAX_QUESTIONS), FAIL_FAST
    ]
    model: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    safety_identifier: str | None = None


@forbid_extra
class PredicateAnswer(TypedDict):
    """Answer to a question of the type `predicate`.

    - `type`: always `predicate`.
    - `name`: the question's name.
    - `probability`: that the statement is true.
    """

    type: Literal["predicate"]
    name: str | None
    probability: float


@forbid_extra
class OptionProbability(TypedDict):
    """The probability of an option.

    - `value`: the option.
    - `probability`: from 0 to 1.
    """

    value: str | bool
    probability: float


@forbid_extra
class ChoiceAnswer(TypedDict):
    """Answer to a question of the type `choice`.

    - `type`: always `choice`.
    - `name`: the question's name.
    - `choice`: the most probable option.
    - `confidence`: 0 if all options are equally probable, 1 if one is certain.
    - `probabilities`: of each option; their sum is 1.
    """

    type: Literal["choice"]
    name: str | None
    choice: str | bool
    confidence: float
    probabilities: list[OptionProbability]


@forbid_extra
class LevelProbability(TypedDict):
    """The probability of a level.

    - `label`: the level's name.
    - `value`: its position, from 0.
    - `probability`: from 0 to 1.
    """

    label: str
    value: NonNegativeInt
    probability: float


@forbid_extra
class ScoreAnswer(TypedDict):
    """Answer to a question of the type `score`.

    - `type`: always `score`.
    - `name`: the question's name.
    - `score`: the mean level, from 0.
    - `confidence`: 0 if all levels are equally probable, 1 if one is certain.
    - `probabilities`: of each level; their sum is 1.
    """

    type: Literal["score"]
    name: str | None
    score: float
    confidence: float
    probabilities: list[LevelProbability]


@forbid_extra
class InputTokenDetails(TypedDict):
    """Input tokens that came from a cache, or were stored in it: always none.

    - `cached_tokens`: always 0.
    - `cache_write_tokens`: always 0.
    """

    cached_tokens: NonNegativeInt
    cache_write_tokens: NonNegativeInt


@forbid_extra
class OutputTokenDetails(TypedDict):
    """Output tokens that were reasoning: always none.

    - `reasoning_tokens`: always 0.
    """

    reasoning_tokens: NonNegativeInt


@forbid_extra
class DecisionUsage(TypedDict):
    """Tokens of a request.

    - `input_tokens`: tokens that the model read: the input once for each question.
    - `input_tokens_details`: those that came from a cache.
    - `output_tokens`: always 0, because the model generates no text.
    - `output_tokens_details`: those that were reasoning.
    - `total_tokens`: the sum.
    """

    input_tokens: NonNegativeInt
    input_tokens_details: InputTokenDetails
    output_tokens: NonNegativeInt
    output_tokens_details: OutputTokenDetails
    total_tokens: NonNegativeInt


@forbid_extra
class Decisions(TypedDict):
    """Response of /v1/decisions.

    - `answers`: the answer to each question, in the request's order.
    """

    answers: list[PredicateAnswer | ChoiceAnswer | ScoreAnswer]
    model: str
    usage: DecisionUsage


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/decisions."""
    models = DecisionService.choice(registry)
    routes = api_router("decide", error_format=OPENAI)

    @routes.post("/v1/decisions", summary="Answer typed questions about a text (OpenAI)")
    async def decisions(context: RequestDep, body: DecisionsRequest) -> Decisions:
        service = models.choose(body.model)
        asked = [
            AskedQuestion(each.question(), f"questions.{index}")
            for index, each in enumerate(body.questions)
        ]
        state = body.input if isinstance(body.input, str) else conversation(body.input)
        probabilities = await service.probabilities(context, state, asked)
        each = zip(body.questions, probabilities, strict=True)
        return {
            "answers": [question.answer(values) for question, values in each],
            "model": service.model.name,
            "usage": _usage(context),
        }

    return routes


def _name(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _usage(context: RequestContext) -> DecisionUsage:
    return {
        "input_tokens": context.tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": context.tokens,
    }
