"""Typed questions about a text: one of several options, a level of a scale, or true and false."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["choice", "score", "noul"]
"""Type of a question: one of several options, a level of a scale, or true and false."""
KINDS: tuple[Kind, ...] = ("choice", "score", "noul")


@dataclass(frozen=True)
class Option:
    """An option of a question. about: its description; None for none."""

    label: str
    about: str | None = None

    def __str__(self) -> str:
        return self.label if self.about is None else f"{self.label}: {self.about}"


@dataclass(frozen=True)
class Question:
    """A question about a text.

    options: of a question whether something is true, false and then true. name: its name in the
    request; "" for none.
    """

    kind: Kind
    instructions: str
    options: tuple[Option, ...]
    name: str = ""

    @classmethod
    def choice(
        cls, instructions: Any, options: Sequence[tuple[str, Any]], name: str | None = None
    ) -> "Question":
        """Build a question with one of several options as its answer.

        options: names, each with a description, or None or "" for none.
        """
        described = (Option(label, _description(about)) for label, about in options)
        return cls("choice", render(instructions), tuple(described), name or "")

    @classmethod
    def score(
        cls, instructions: Any, levels: Sequence[tuple[Any, Any]], name: str | None = None
    ) -> "Question":
        """Build a question with a level of a scale as its answer.

        levels: the lowest first, each with a description, or None or "" for none.
        """
        described = (Option(render(level), _description(about)) for level, about in levels)
        return cls("score", render(instructions), tuple(described), name or "")

    @classmethod
    def noul(
        cls, instructions: Any, if_true: Any = None, if_false: Any = None, name: str | None = None
    ) -> "Question":
        """Build a question whether something is true. if_true, if_false: descriptions, or None."""
        described = (("false", if_false), ("true", if_true))
        options = (Option(label, _description(about)) for label, about in described)
        return cls("noul", render(instructions), tuple(options), name or "")


def render(value: Any) -> str:
    """Return a text as it is, and other JSON on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _description(about: Any) -> str | None:
    return None if about is None or about == "" else render(about)
