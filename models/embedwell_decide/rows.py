"""Rows of token ids in which a model reads a question with its options, and a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from embedwell_decide.questions import Question
from embedwell_models.vectors import Floats

Ids = Sequence[int]
"""Token ids of a text, without special tokens around it."""


@dataclass(frozen=True)
class DecisionRow:
    """The row of a question about a text.

    ids: of all tokens. dropped: number of the text's tokens that were cut off, or a lower bound.
    """

    ids: list[int]
    dropped: int


class RowBuilder(Protocol):
    """Builds the rows of a model. max_length: tokens of a row."""

    @property
    def max_length(self) -> int: ...

    def state_texts(self, state: str, *, keep_end: bool = False) -> list[str]:
        """Return the texts to tokenize for the text that questions are about."""

    def question_texts(self, question: Question) -> list[str]:
        """Return the texts to tokenize for a question."""

    def row(
        self,
        question: Sequence[Ids],
        state: Sequence[Ids],
        *,
        keep_end: bool = False,
        max_length: int | None = None,
    ) -> DecisionRow | None:
        """Build the row of a question; None if its options do not fit.

        question, state: ids of the texts to tokenize. keep_end: whether a long text loses its
        beginning, as a conversation does, and not its end.
        """

    def probabilities(self, question: Question, logits: Floats) -> npt.NDArray[np.float64]:
        """Return the probability of each option, which sum to one: (options,) -> (options,)."""


def softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return probabilities that sum to one."""
    powers = np.exp(logits - logits.max())
    probabilities: npt.NDArray[np.float64] = powers / powers.sum()
    return probabilities
