"""Resolve the prompt of a request: by name, by text, by role, or by task."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from embedwell_models.errors import InputError
from embedwell_models.model_files.vector_recipe import VectorRecipe

Role = Literal["query", "document", "classification", "clustering"]

TASK_ROLES: Mapping[str, Role | None] = {
    "retrieval.query": "query",
    "retrieval.passage": "document",
    "text-matching": None,
    "classification": "classification",
    "separation": "clustering",
}
"""Roles of texts in Jina's tasks."""

_ROUTED = {"query": "retrieval.query", "document": "retrieval.passage"}
"""Roles that may have modules of their own, with the tasks that choose these."""

# Prompt names of each role, in sentence-transformers' order of precedence.
_NAMES = {
    "query": ("query", "search_query"),
    "document": ("document", "passage", "corpus", "search_document"),
    "classification": ("classification",),
    "clustering": ("clustering",),
}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    name: None for a text of the client, or if there is no prompt.
    """

    name: str | None
    text: str


class Prompts:
    """Chooses the prompt of a request among those in the model's files."""

    def __init__(self, recipe: VectorRecipe, advice: str = "") -> None:
        """advice: added to the error of an unknown name, if the model has none."""
        self._advice = advice
        self._texts, self._role = recipe.prompts, recipe.role
        names = (name for name, text in self._texts.items() if text == recipe.default_prompt)
        self._default = Prompt(next(names, None), recipe.default_prompt)

    def resolve(
        self, text: str | None, name: str | None, role: Role | None, task: str | None = None
    ) -> Prompt:
        """Return the requested prompt, or the model's default.

        A task selects the prompt of its name, else that of its role; another prompt has precedence.
        A role without a prompt has the default prompt, as in sentence-transformers. Raises
        InputError for an unknown name, for more than one of the first three arguments, and for a
        role that the model's modules are not for.
        """
        if role in _ROUTED and self._role not in (role, None):
            raise InputError(
                f"these modules are for the role {self._role}: choose those for {role} with "
                f"task {_ROUTED[role]!r}, or with the model NAME:{_ROUTED[role]}",
                param="input_type",
            )
        if text is name is role is task is None:
            return self._default
        by_role = role is not None and task is None
        if (text is not None) + (name is not None) + by_role > 1:
            raise InputError("give only one of prompt, prompt_name and input_type", param="prompt")
        if text is not None:
            return Prompt(None, text)
        if name is not None:
            return self._named(name)
        names = (*(() if task is None else (task,)), *(() if role is None else _NAMES[role]))
        chosen = next((name for name in names if name in self._texts), None)
        return self._default if chosen is None else Prompt(chosen, self._texts[chosen])

    def _named(self, name: str) -> Prompt:
        if name not in self._texts:
            names = ", ".join(map(repr, sorted(self._texts)))
            raise InputError(
                f"no prompt {name!r}; the model has " + (names or f"none{self._advice}"),
                code="unknown_prompt",
                param="prompt_name",
            )
        return Prompt(name, self._texts[name])
