"""Often used models of the hub: their sizes, and the prompts of which their files say nothing."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from embedwell_models.errors import ModelError

_FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Facts of a model's card.

    task: embed, rerank, sparse or multi-vector. parameters: in millions. matrices: those parameters
    that every token of a text is multiplied with, in millions; None if there are none (a table of
    vectors), if they depend on the input (images, experts) or on an option (the layer that scores),
    or if the number is not known. dimensions: of a vector; None for a reranker. tokens: the most of
    a text; None if the model has no limit, or one for each kind of text. licence: its SPDX name, or
    the author's; "" if the card names none. prompts: texts that the authors tell users to put
    before texts, by name.
    """

    task: str
    parameters: float
    matrices: float | None = None
    dimensions: int | None = None
    tokens: int | None = None
    licence: str = ""
    prompts: Mapping[str, str] | None = None


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the known models by their names on the hub."""
    file = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return {name: _model(facts, file["prompts"]) for name, facts in file["models"].items()}


def _model(facts: Mapping[str, Any], prompts: Mapping[str, Mapping[str, str]]) -> KnownModel:
    named = facts.get("prompts")
    return KnownModel(**{**facts, "prompts": prompts[named] if named else None})


def published_prompts(name: str) -> Mapping[str, str]:
    """Return the prompts that the authors of a model publish next to its files.

    Raises ModelError if none are known.
    """
    model = known_models().get(name)
    if model is None or model.prompts is None:
        raise ModelError(
            f"no published prompts of {name} are known besides those in its files; give your own, "
            'such as {"query": "query: ", "document": "passage: "}'
        )
    return model.prompts
