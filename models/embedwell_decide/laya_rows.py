"""Rows of Laya, as it was trained on them.

Laya: Convai Innovations 2026, https://huggingface.co/convaiinnovations/laya.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import Option, Question
from embedwell_decide.rows import DecisionRow, Ids
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

MAX_OPTION_TOKENS = 48
_LEAST_QUESTION = 16  # tokens that the options leave to the instructions, if they can
_FEW_TOKENS = 8  # of the instructions, in any case
_FEW_OPTION_TOKENS = 4
_TRUE, _FALSE = "yes, the statement holds", "no, the statement does not hold"


@dataclass(frozen=True)
class LayaRows:
    """Builds rows: [CLS] question [SEP] [MASK] option [MASK] option … [SEP] text [SEP].

    cls, sep, mask: ids of these tokens. mask_name: text of the mask, which no text keeps.
    """

    options: DecisionOptions
    cls: int
    sep: int
    mask: int
    mask_name: str

    @classmethod
    def of(
        cls,
        options: DecisionOptions,
        special_id: Callable[[str], int | None],
        token_name: Callable[[int], str],
    ) -> "LayaRows":
        """Return the builder for a tokenizer; raises ModelError if it lacks a special token.

        special_id: returns the id of the special token of a role. token_name: returns its text.
        """
        ids = {role: special_id(role) for role in ("cls", "sep", "mask")}
        if missing := [role for role, id in ids.items() if id is None]:
            raise ModelError(f"the tokenizer of a decision model has no {missing[0]} token")
        known = {role: id for role, id in ids.items() if id is not None}
        return cls(options, mask_name=token_name(known["mask"]), **known)

    @property
    def max_length(self) -> int:
        """Tokens of a row."""
        return self.options.max_length

    def state_texts(self, state: str, *, keep_end: bool = False) -> list[str]:
        """Return the text."""
        return [state.replace(self.mask_name, " ")]

    def question_texts(self, question: Question) -> list[str]:
        """Return the question, and each option."""
        # An option follows its marker as a word follows another.
        options = [f" {option}" for option in option_texts(question)]
        texts = [f"{question.kind} question: {question.instructions}", *options]
        return [text.replace(self.mask_name, " ") for text in texts]

    def row(
        self,
        question: Sequence[Ids],
        state: Sequence[Ids],
        *,
        keep_end: bool = False,
        max_length: int | None = None,
    ) -> DecisionRow | None:
        """Build the row of a question; see RowBuilder."""
        (heading, *options), (text,) = question, state
        length = max_length or self.max_length
        marked, room = self._marked(options)
        ids = [self.cls, *heading[: max(_FEW_TOKENS, room)], self.sep]
        start = len(ids) + sum(map(len, marked[:-1]))
        if start >= length:
            return None
        for option in marked:
            ids += option
        ids.append(self.sep)
        left = max(0, length - len(ids) - 1)
        kept = text[max(0, len(text) - left) :] if keep_end else text[:left]
        return DecisionRow([*ids, *kept, self.sep][:length], len(text) - len(kept))

    def probabilities(self, question: Question, logits: Floats) -> npt.NDArray[np.float64]:
        """Return the probability of each option; see RowBuilder."""
        return self.options.probabilities(question.kind, logits)

    def _marked(self, options: Sequence[Ids]) -> tuple[list[list[int]], int]:
        # The options with their markers, and the tokens that they leave to the instructions.
        most = self.options.max_question
        marked = [[self.mask, *ids[:MAX_OPTION_TOKENS]] for ids in options]
        room = most - sum(map(len, marked))
        if room < _LEAST_QUESTION:
            each = (most - _LEAST_QUESTION) // len(marked)
            marked = [ids[: max(_FEW_OPTION_TOKENS, each)] for ids in marked]
            room = most - sum(map(len, marked))
        return marked, room


def option_texts(question: Question) -> list[str]:
    """Return the options as Laya reads them."""
    if question.kind == "score":
        return [f"level {index}: {option}" for index, option in enumerate(question.options)]
    if question.kind == "choice":
        return [*map(str, question.options)]
    defaults = zip(question.options, (_FALSE, _TRUE), strict=True)
    return [str(Option(option.label, option.about or default)) for option, default in defaults]
