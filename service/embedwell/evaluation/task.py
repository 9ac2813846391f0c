"""What all tasks have: texts to embed, and scores of their vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from embedwell.inputs.prompts import Role
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class Inputs:
    """Texts that are embedded with the prompt of a role; None: with the model's default."""

    texts: Sequence[str]
    role: Role | None = None


class Task(Protocol):
    """A task of a file."""

    @property
    def name(self) -> str:
        """What is measured, and on which file."""

    @property
    def inputs(self) -> Sequence[Inputs]:
        """The texts whose vectors the task needs."""

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Scores from 0 to 100 (correlations from -100), the main one first.

        vectors: (B, D) for each of the inputs.
        """
