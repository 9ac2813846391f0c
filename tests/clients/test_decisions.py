"""Clients that ask typed questions, with a server of a small decision model."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.tools import ToolMetadata

from tests.clients.decision_server import decision_server
from tests.clients.example_program import run_program
from tests.service.server import HttpServer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses old options of pydantic
    from laya.integrations.langchain import LayaRouter
    from laya.integrations.llamaindex import LayaMultiSelector, LayaSingleSelector

STATE = "the work of the author is not a license to copy any of it"
CHOICES = {"work": "for the", "any": None, "such": "by is not"}
LANGCHAIN = f"""
import asyncio
import warnings
from langchain_core._api import LangChainBetaWarning
from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score
warnings.simplefilter("ignore", LangChainBetaWarning)
model = OpenAIDecisions(model="laya", api_key="unused", base_url="http://localhost:8080/v1")
questions = {{
    "team": Choice(instructions="which of any", choices={CHOICES}),
    "how": Score(instructions="how much", levels=["the", "of", "to"]),
    "is it": Predicate(instructions="this is by such"),
}}
request = {{"input": {STATE!r}, "questions": questions}}
response = model.invoke(request)
assert asyncio.run(model.ainvoke(request)).choices == response.choices
"""
AGENTS = f"""
from typing import Literal
from pydantic import BaseModel, Field
from pydantic_ai import Agent
from pydantic_ai.models.openai_decisions import OpenAIDecisionsModel
from pydantic_ai.models.system_one import SystemOneModel
from pydantic_ai.models.typesafe import TypeSafeModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.system_one import SystemOneProvider
from pydantic_ai.providers.typesafe import TypeSafeProvider

class Handling(BaseModel):
    team: Literal["work", "any", "such"] = Field(description="which of any")
    urgent: bool = Field(description="this is by such")

url, key = "http://localhost:8080", "unused"
models = [
    OpenAIDecisionsModel("laya", provider=OpenAIProvider(base_url=url + "/v1", api_key=key)),
    SystemOneModel("laya", provider=SystemOneProvider(base_url=url, api_key=key)),
    TypeSafeModel("laya", provider=TypeSafeProvider(base_url=url, api_key=key)),
]
results = [Agent(model, output_type=Handling).run_sync({STATE!r}) for model in models]
"""


@pytest.fixture(scope="module")
def decider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with decision_server(tmp_path_factory.mktemp("decide")) as server:
        yield server


def test_langchain_gets_probabilities(decider: HttpServer) -> None:
    questions = {
        "team": {"type": "choice", "instructions": "which of any", "criteria": CHOICES},
        "how": {"type": "score", "instructions": "how much", "criteria": ["the", "of", "to"]},
        "is it": {"type": "noul", "instructions": "this is by such"},
    }
    body = {"state": STATE, "questions": questions}
    expected = decider.post("/v1/systemone", body).json()["answers"]
    printed = (
        '[response.choices["team"].choice, response.scores["how"].score, '
        'response.predicates["is it"].probability]'
    )
    choice, *numbers = run_program(decider, LANGCHAIN, printed)
    assert choice == expected["team"]["choice"]
    assert numbers == pytest.approx([expected["how"]["score"], expected["is it"]["noul"]])


def test_agents_of_pydantic_ai_decide(decider: HttpServer) -> None:
    printed = (
        "[[each.output.team, each.output.urgent, each.usage.input_tokens] for each in results]"
    )
    answers: Any = run_program(decider, AGENTS, printed)
    assert len(answers) == 3
    for team, urgent, tokens in answers:
        assert team in CHOICES and isinstance(urgent, bool) and tokens > 0


def test_layas_integrations_ask_the_server(decider: HttpServer) -> None:
    tools = [ToolMetadata(name=name, description=f"of {name}") for name in CHOICES]
    best = LayaSingleSelector(base_url=decider.url, model="laya").select(tools, STATE)
    several = LayaMultiSelector(base_url=decider.url, probability_threshold=0.0)
    assert len(several.select(tools, STATE).selections) == len(tools)
    assert best.selections[0].index in range(len(tools))
    router = LayaRouter({"work": "for the", "any": "of any"}, "which", base_url=decider.url)
    assert router.invoke(STATE) in {"work", "any"}
