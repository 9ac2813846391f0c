"""Tests of the prompt of a role, a task or a name."""

import pytest

from embedwell_models.errors import InputError
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.read.prompts import Prompt, Prompts, Role


@pytest.mark.parametrize(
    ("names", "role", "chosen"),
    [
        (("query", "document"), "document", "document"),
        (("corpus", "passage"), "document", "passage"),
        (("search_query", "search_document"), "query", "search_query"),
        (("search_query", "search_document"), "document", "search_document"),
        (("clustering", "classification"), "classification", "classification"),
        (("clustering", "classification"), "clustering", "clustering"),
        (("query",), "document", None),
        ((), "query", None),
    ],
)
def test_a_role_has_the_models_prompt_for_it_or_the_default(
    names: tuple[str, ...], role: Role, chosen: str | None
) -> None:
    prompts = Prompts(VectorRecipe(max_length=9, prompts={name: f"{name}: " for name in names}))
    expected = Prompt(chosen, f"{chosen}: " if chosen else "")
    assert prompts.resolve(None, None, role) == expected


def test_a_prompt_has_precedence_over_a_task_and_its_role() -> None:
    prompts = Prompts(VectorRecipe(max_length=9, prompts={"query": "q: "}))
    task = "retrieval.query"
    assert prompts.resolve("a", None, "query", task) == Prompt(None, "a")
    assert prompts.resolve(None, None, "query", task) == Prompt("query", "q: ")


def test_the_error_of_an_unknown_name_lists_the_models_names() -> None:
    with pytest.raises(InputError, match=r"no prompt 'title'; the model has 'query'$"):
        Prompts(VectorRecipe(max_length=9, prompts={"query": "q"})).resolve(None, "title", None)
    with pytest.raises(InputError, match=r"the model has none, but may get some$"):
        Prompts(VectorRecipe(max_length=9), ", but may get some").resolve(None, "title", None)
