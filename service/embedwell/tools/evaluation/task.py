"""Interface of tasks: texts to embed, and scores of their vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from embedwell.inputs.prompts import Role
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
