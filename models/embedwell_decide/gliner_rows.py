"""Rows of GLiNER2, as its authors' code builds them.

GLiNER2: Zaratiana et al. 2025, arXiv 2507.18546; https://pypi.org/project/gliner2 has the code.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice

import numpy as np
import numpy.typing as npt

from embedwell_decide.gliner_options import DESCRIPTION, LABEL, MARKERS, PROMPT, TEXT
from embedwell_decide.questions import Option, Question
from embedwell_decide.rows import DecisionRow, Ids, softmax
from embedwell_models.vectors import Floats

_ANSWERS = {"true": "yes", "false": "no"}
"""Labels of a question whether something is true."""
_ENDS = (".", "!", "?")
# The lengths of addresses are those of RFC 5321, without which a search would take quadratic time.
_URL, _EMAIL, _USER = (
    r"(?:https?://|www\.)\S+",
    r"[a-z0-9._%+-]{1,64}@[a-z0-9.-]{1,255}\.[a-z]{2,}",
    "@[a-z0-9_]+",
)
_WORD_SIZE = 64  # characters that are read for a word of a long conversation
_WITH_MARKS = (range(0x20000), range(0xE0000, 0xE1000))
"""Characters among which there are combining marks."""


@dataclass(frozen=True)
class GlinerRows:
    """Builds rows: ( [P] name: instructions ( [L] option [L] option … ) ) [SEP_TEXT] words.

    max_length: tokens of a row.
    """

    max_length: int

    def state_texts(self, state: str, *, keep_end: bool = False) -> list[str]:
        """Return the words of the text, up to one more than any row holds."""
        most = self.max_length + 1
        if not keep_end:
            return [*islice(words(state), most)]
        # A word has no white space, so the words to read are in as many of the parts between it.
        last = " ".join(_ended(state).rsplit(maxsplit=most)[-most:])
        return [*deque(words(last[-most * _WORD_SIZE :]), most)]

    def question_texts(self, question: Question) -> list[str]:
        """Return the parts of the row before the text."""
        labels = labels_of(question)
        marked = chain.from_iterable((LABEL, without_markers(each.label)) for each in labels)
        return ["(", PROMPT, prompt_of(question, labels), "(", *marked, ")", ")", TEXT]

    def row(
        self,
        question: Sequence[Ids],
        state: Sequence[Ids],
        *,
        keep_end: bool = False,
        max_length: int | None = None,
    ) -> DecisionRow | None:
        """Build the row of a question, with whole words of the text; see RowBuilder."""
        ids = [*chain.from_iterable(question)]
        left = (max_length or self.max_length) - len(ids)
        if left < 0:
            return None
        kept = list[Ids]()
        for word in reversed(state) if keep_end else state:
            left -= len(word)
            if left < 0:
                break
            kept.append(word)
        ids += chain.from_iterable(reversed(kept) if keep_end else kept)
        dropped = state[: len(state) - len(kept)] if keep_end else state[len(kept) :]
        return DecisionRow(ids, sum(map(len, dropped)))

    def probabilities(self, question: Question, logits: Floats) -> npt.NDArray[np.float64]:
        """Return the probability of each option; see RowBuilder."""
        probabilities = softmax(logits.astype(np.float64))
        return probabilities[::-1] if question.kind == "noul" else probabilities


def labels_of(question: Question) -> Sequence[Option]:
    """Return the labels that a model reads: options, levels, or yes and no."""
    if question.kind != "noul":
        return question.options
    return [Option(_ANSWERS[each.label], each.about) for each in reversed(question.options)]


def prompt_of(question: Question, labels: Sequence[Option]) -> str:
    """Return the task: the name and the instructions of a question, and descriptions of labels."""
    task = ": ".join(filter(None, (question.name, question.instructions)))
    described = [f" {DESCRIPTION} {without_markers(str(it))}" for it in labels if it.about]
    return without_markers(task) + "".join(described)


def without_markers(text: str) -> str:
    """Return a text without the special tokens of GLiNER2, so that it adds none."""
    for marker in MARKERS:
        text = text.replace(marker, " ")
    return text


def words(text: str) -> Iterator[str]:
    """Yield the words of a text, which ends in punctuation, in lower case."""
    return (match.group().lower() for match in _pattern().finditer(_ended(text)))


def _ended(text: str) -> str:
    return text if text.endswith(_ENDS) else f"{text}."


@cache
def _pattern() -> re.Pattern[str]:
    # Addresses, then words with their combining marks and joiners, then any other character.
    characters = chain.from_iterable(_WITH_MARKS)
    marks = "".join(chr(it) for it in characters if unicodedata.category(chr(it))[0] == "M")
    word_character = rf"[\w{marks}\u200c\u200d]"
    word = rf"{word_character}+(?:[-_]{word_character}+)*"
    return re.compile("|".join((_URL, _EMAIL, _USER, word, r"\S")), re.IGNORECASE)
