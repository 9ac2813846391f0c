"""POST /v1/systemone: typed questions about a state, in the format of TypeSafe's Jev."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Discriminator, Field, NonNegativeInt
from typing_extensions import TypedDict

from embedwell.routes.common.body import Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_decide.questions import Question
from embedwell_decide_service import confidence
from embedwell_decide_service.decision_reader import AskedQuestion
from embedwell_decide_service.decision_service import DecisionService

_HOSTED = "jev"
"""Beginning of the names that clients of the hosted API send; they mean the default model."""

Structured = str | dict[str, Any] | list[Any]
"""A text, or JSON that the model reads as a text."""


class Outcomes(Body):
    """Descriptions of true and false.

    - `true`: what true means. Default: that the statement holds.
    - `false`: what false means. Default: that it does not hold.
    """

    true: Structured | None = None
    false: Structured | None = None


class SystemOneNoul(Body):
    """Question whether something is true.

    - `type`: always `noul`.
    - `instructions`: the statement or question.
    - `criteria`: what true and false mean.
    """

    type: Literal["noul"]
    instructions: Structured | None = None
    criteria: Outcomes | None = None

    def question(self, name: str) -> Question:
        """Return the question as a model reads it."""
        outcomes = self.criteria or Outcomes()
        return Question.noul(self.instructions or "", outcomes.true, outcomes.false, name)

    def answer(self, probabilities: list[float]) -> "SystemOneNoulAnswer":
        """Return the answer by the probabilities of false and true."""
        return {"type": "noul", "noul": probabilities[1]}


class SystemOneChoice(Body):
    """Question which of several options holds.

    - `type`: always `choice`.
    - `instructions`: the question.
    - `criteria`: 1 to 255 options, each with its description or null.
    """

    type: Literal["choice"]
    instructions: Structured | None = None
    criteria: Annotated[dict[str, Structured | None], Field(min_length=1, max_length=255)]

    def question(self, name: str) -> Question:
        """Return the question as a model reads it."""
        return Question.choice(self.instructions or "", [*self.criteria.items()], name)

    def answer(self, probabilities: list[float]) -> "SystemOneChoiceAnswer":
        """Return the answer by the probability of each option."""
        by_option = dict(zip(self.criteria, probabilities, strict=True))
        return {
            "type": "choice",
            "choice": max(by_option, key=by_option.__getitem__),
            "probabilities": by_option,
            "confidence": confidence.of_choice(probabilities),
        }


class SystemOneScore(Body):
    """Question which level of a scale holds.

    - `type`: always `score`.
    - `instructions`: the question.
    - `criteria`: descriptions of 1 to 10 levels, the lowest first.
    """

    type: Literal["score"]
    instructions: Structured | None = None
    criteria: Annotated[list[Structured], Field(min_length=1, max_length=10)]

    def question(self, name: str) -> Question:
        """Return the question as a model reads it."""
        levels = [(level, None) for level in self.criteria]
        return Question.score(self.instructions or "", levels, name)

    def answer(self, probabilities: list[float]) -> "SystemOneScoreAnswer":
        """Return the answer by the probability of each level."""
        levels = [str(level) for level in range(len(self.criteria))]
        return {
            "type": "score",
            "score": confidence.expectation(probabilities),
            "legend": dict(zip(levels, self.criteria, strict=True)),
            "probabilities": dict(zip(levels, probabilities, strict=True)),
            "confidence": confidence.of_score(probabilities),
        }


AnyQuestion = Annotated[SystemOneNoul | SystemOneChoice | SystemOneScore, Discriminator("type")]


class SystemOneRequest(Body):
    """Request body of /v1/systemone.

    - `state`: what the questions are about: a text, or JSON. A list is a conversation: if it is too
      long, the model does not read its beginning; of other states it does not read the end.
    - `questions`: questions by names of your choice, each of the type `noul`, `choice` or `score`.
    - `model`: name of a served model. Default, and for the hosted models' names (`jev-latest`): the
      first model that decides.
    """

    model_config = examples(
        {
            "state": "We were billed twice for March. Please refund the duplicate.",
            "questions": {
                "refund": {"type": "noul", "instructions": "Does the customer want a refund?"},
                "team": {
                    "type": "choice",
                    "instructions": "Which team should answer?",
                    "criteria": {"billing": "invoices and payments", "support": None},
                },
                "urgency": {
                    "type": "score",
                    "instructions": "How urgent is this?",
                    "criteria": ["can wait", "this week", "today"],
                },
            },
        }
    )

    state: Structured
    questions: Annotated[
        dict[Annotated[str, Field(min_length=1)], AnyQuestion], Field(min_length=1)
    ]
    model: str | None = None


@forbid_extra
class SystemOneNoulAnswer(TypedDict):
    """Answer to a question of the type `noul`.

    - `type`: always `noul`.
    - `noul`: probability that it is true.
    """

    type: Literal["noul"]
    noul: float


@forbid_extra
class SystemOneChoiceAnswer(TypedDict):
    """Answer to a question of the type `choice`.

    - `type`: always `choice`.
    - `choice`: the most probable option.
    - `probabilities`: of each option; their sum is 1.
    - `confidence`: 0 if all options are equally probable, 1 if one is certain.
    """

    type: Literal["choice"]
    choice: str
    probabilities: dict[str, float]
    confidence: float


@forbid_extra
class SystemOneScoreAnswer(TypedDict):
    """Answer to a question of the type `score`.

    - `type`: always `score`.
    - `score`: the mean level, from 0.
    - `legend`: the description of each level.
    - `probabilities`: of each level; their sum is 1.
    - `confidence`: 0 if all levels are equally probable, 1 if one is certain.
    """

    type: Literal["score"]
    score: float
    legend: Mapping[str, Structured]
    probabilities: dict[str, float]
    confidence: float


@forbid_extra
class SystemOneUsage(TypedDict):
    """Tokens of a request.

    - `input_tokens`: tokens that the model read: the state once for each question.
    - `output_tokens`: always 0, because the model generates no text.
    """

    input_tokens: NonNegativeInt
    output_tokens: NonNegativeInt


@forbid_extra
class SystemOneResponse(TypedDict):
    """Response of /v1/systemone.

    - `answers`: the answer to each question, by its name.
    """

    model: str
    answers: dict[str, SystemOneNoulAnswer | SystemOneChoiceAnswer | SystemOneScoreAnswer]
    usage: SystemOneUsage


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/systemone."""
    models = DecisionService.choice(registry)
    routes = api_router("decide")

    @routes.post("/v1/systemone", summary="Answer typed questions about a state (System One)")
    async def system_one(context: RequestDep, body: SystemOneRequest) -> SystemOneResponse:
        hosted = body.model is not None and body.model.startswith(_HOSTED)
        service = models.choose(None if hosted else body.model)
        asked = [
            AskedQuestion(each.question(name), f"questions.{name}")
            for name, each in body.questions.items()
        ]
        probabilities = await service.probabilities(context, body.state, asked)
        each = zip(body.questions.items(), probabilities, strict=True)
        return {
            "model": service.model.name,
            "answers": {name: question.answer(values) for (name, question), values in each},
            "usage": {"input_tokens": context.tokens, "output_tokens": 0},
        }

    return routes
