"""Tasks, which have texts to embed, and the scores of a model's vectors in every form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from embedwell.inputs.prompts import Role
from embedwell.routes.common.response_body import OutputType
from embedwell.tools.evaluation.variants import Result, variants
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class Inputs:
    """Texts to embed with the prompt of a role; None for the model's default prompt."""

    texts: Sequence[str]
    role: Role | None = None


class Task(Protocol):
    """Texts with known results, from a file, by which vectors are scored."""

    @property
    def name(self) -> str:
        """Name of the task and its file."""

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the texts whose vectors the task needs."""

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return scores from 0 to 100 (correlations from -100), the main score first.

        vectors: (B, D) for each of the inputs.
        """


Embed = Callable[[Sequence[str], Role | None], Floats]
"""Computes the vectors of B texts, with the prompt of a role: (B, D)."""


def score(
    tasks: Sequence[Task],
    embed: Embed,
    precision: str,
    dimensions: Sequence[int] = (),
    output_types: Sequence[OutputType] = (),
) -> Iterator[Result]:
    """Return the scores of each task with each variant of the vectors.

    A text is embedded once for each role, even if several tasks have it. Raises ClickException for
    more dimensions than the vectors have.
    """
    vectors_of = _embed_all([inputs for task in tasks for inputs in task.inputs], embed)
    for task in tasks:
        sides = [vectors_of(inputs) for inputs in task.inputs]
        dim = sides[0].shape[1]
        for variant in variants(dim, dimensions, output_types):
            scores = task.scores(*map(variant.apply, sides))
            yield Result(task.name, precision, variant, scores)


def _embed_all(all_inputs: Sequence[Inputs], embed: Embed) -> Callable[[Inputs], Floats]:
    texts: dict[Role | None, dict[str, int]] = {}
    for inputs in all_inputs:
        rows = texts.setdefault(inputs.role, {})
        for text in inputs.texts:
            rows.setdefault(text, len(rows))
    vectors: Mapping[Role | None, Floats] = {
        role: embed(list(rows), role) for role, rows in texts.items()
    }
    return lambda inputs: vectors[inputs.role][[texts[inputs.role][text] for text in inputs.texts]]
