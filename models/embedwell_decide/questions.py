"""Typed questions about a text, and their rows of token ids, as Laya was trained on them.

Laya: Convai Innovations 2026, https://huggingface.co/convaiinnovations/laya.
"""

import json
from collections.abc import Sequence
from typing import Any, Literal

from embedwell_models.records import record

Kind = Literal["choice", "score", "noul"]
"""Type of a question: one of several options, a level of a scale, or true and false."""
KINDS: tuple[Kind, ...] = ("choice", "score", "noul")

MAX_OPTION_TOKENS = 48
_LEAST_QUESTION = 16  # tokens that the options leave to the instructions, if they can
_FEW_TOKENS = 8  # of the instructions, in any case
_FEW_OPTION_TOKENS = 4
_TRUE, _FALSE = "yes, the statement holds", "no, the statement does not hold"


@record
class Question:
    """A question about a text. options: the texts of the options, each with its description."""

    kind: Kind
    instructions: str
    options: tuple[str, ...]

    @classmethod
    def choice(cls, instructions: Any, options: Sequence[tuple[str, Any]]) -> "Question":
        """Build a question with one of several options as its answer.

        options: names, each with a description, or None or "" for none.
        """
        texts = (
            name if about is None or about == "" else f"{name}: {render(about)}"
            for name, about in options
        )
        return cls("choice", render(instructions), tuple(texts))

    @classmethod
    def score(cls, instructions: Any, levels: Sequence[Any]) -> "Question":
        """Build a question with a level of a scale as its answer. levels: the lowest first."""
        texts = (f"level {index}: {render(level)}" for index, level in enumerate(levels))
        return cls("score", render(instructions), tuple(texts))

    @classmethod
    def noul(cls, instructions: Any, if_true: Any = None, if_false: Any = None) -> "Question":
        """Build a question whether something is true; the options are false, then true."""
        described = (("false", if_false, _FALSE), ("true", if_true, _TRUE))
        texts = (
            f"{name}: {default if about is None or about == '' else render(about)}"
            for name, about, default in described
        )
        return cls("noul", render(instructions), tuple(texts))

    @property
    def heading(self) -> str:
        """The text that begins the row of the question."""
        return f"{self.kind} question: {self.instructions}"


def render(value: Any) -> str:
    """Return a text as it is, and other JSON on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@record
class DecisionRow:
    """The row of a question about a text.

    ids: of all tokens. dropped: number of the text's tokens that were cut off.
    """

    ids: list[int]
    dropped: int


@record
class RowFormat:
    """Builds rows: [CLS] question [SEP] [MASK] option [MASK] option … [SEP] text [SEP].

    cls, sep, mask: ids of these tokens. max_length: tokens of a row. max_question: tokens of the
    question and its options, special tokens aside; the options are shortened first.
    """

    cls: int
    sep: int
    mask: int
    max_length: int
    max_question: int

    def row(
        self,
        heading: Sequence[int],
        options: Sequence[Sequence[int]],
        text: Sequence[int],
        *,
        keep_end: bool = False,
    ) -> DecisionRow | None:
        """Build the row of a question; None if its options do not fit.

        heading, options, text: token ids. keep_end: whether a long text loses its beginning, as a
        conversation does, and not its end.
        """
        marked = [[self.mask, *ids[:MAX_OPTION_TOKENS]] for ids in options]
        room = self.max_question - sum(map(len, marked))
        if room < _LEAST_QUESTION:
            each = (self.max_question - _LEAST_QUESTION) // len(marked)
            marked = [ids[: max(_FEW_OPTION_TOKENS, each)] for ids in marked]
            room = self.max_question - sum(map(len, marked))
        question = [self.cls, *heading[: max(_FEW_TOKENS, room)], self.sep]
        start = len(question) + sum(map(len, marked[:-1]))
        if start >= self.max_length:
            return None
        for ids in marked:
            question += ids
        question.append(self.sep)
        left = max(0, self.max_length - len(question) - 1)
        kept = text[max(0, len(text) - left) :] if keep_end else text[:left]
        row = [*question, *kept, self.sep][: self.max_length]
        return DecisionRow(row, len(text) - len(kept))


def temperature_name(kind: Kind, options: int) -> str:
    """Return the name under which a checkpoint has the temperature of such questions."""
    sizes = ((2, "2"), (5, "3-5"), (10, "6-10"))
    size = next((name for most, name in sizes if options <= most), "11+")
    return f"{kind}:{size}"
