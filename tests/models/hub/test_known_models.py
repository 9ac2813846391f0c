"""The table of often used models."""

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.hub.known_models import known_models, published_prompts

ROLES = {"query", "document", "clustering", "classification"}


@pytest.mark.parametrize("name", known_models())
def test_the_facts_of_a_model_are_plausible(name: str) -> None:
    model, (owner, _, repository) = known_models()[name], name.partition("/")
    assert owner and repository and "/" not in repository
    assert model.task in ("embed", "rerank", "sparse", "multi-vector")
    assert 1 < model.parameters < 10_000
    assert model.matrices is None or 0.4 < model.matrices <= model.parameters
    assert (model.dimensions is None) == (model.task == "rerank")
    assert model.dimensions is None or 90 < model.dimensions < 40_000
    assert model.tokens is None or 50 < model.tokens <= 32_768
    assert {*(model.prompts or {})} <= ROLES and model.prompts != {}


def test_a_prompt_ends_where_the_text_begins() -> None:
    prompts = published_prompts("intfloat/e5-base-v2")
    assert prompts == {"query": "query: ", "document": "passage: "}
    instruct = published_prompts("intfloat/e5-mistral-7b-instruct")
    assert instruct["query"].endswith("answer the query\nQuery: ")


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6-v2", "me/mine"])
def test_a_model_without_published_prompts_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=f"no published prompts of {name} are known"):
        published_prompts(name)
