"""Analogies of words: a is to b as c is to d."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from embedwell.tools.evaluation.scoring import Inputs
from embedwell.tools.plots.texts import read_utf8
from embedwell_models.vectors import Floats, normalize

_CHUNK = 1024  # questions whose cosines with all words are in memory together
Question = tuple[str, str, str, str]


@dataclass(frozen=True)
class Analogies:
    """Questions by section; each answer is searched among all words of the file."""

    name: str
    sections: Mapping[str, Sequence[Question]]
    words: Sequence[str]

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return every word once."""
        return (Inputs(self.words),)

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return the percentage of questions whose d is nearest to b - a + c, by section, too.

        The method is 3CosAdd of Mikolov et al. 2013 (arXiv:1301.3781): the three given words cannot
        be the answer.
        """
        row = {word: number for number, word in enumerate(self.words)}
        units = normalize(vectors[0])
        correct = {
            section: _correct(units, np.array([[row[word] for word in line] for line in lines]))
            for section, lines in self.sections.items()
        }
        total = sum(len(lines) for lines in self.sections.values())
        return {
            "accuracy": 100 * sum(correct.values()) / total,
            **{name: 100 * correct[name] / len(lines) for name, lines in self.sections.items()},
        }


def _correct(units: Floats, questions: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> int:
    correct = 0
    for start in range(0, len(questions), _CHUNK):
        a, b, c, d = questions[start : start + _CHUNK].T
        cosines = (units[b] - units[a] + units[c]) @ units.T
        for words in (a, b, c):
            cosines[np.arange(len(words)), words] = -np.inf
        correct += int((cosines.argmax(axis=1) == d).sum())
    return correct


def read_analogies(path: Path) -> Analogies:
    """Read questions of four words on each line; lines that begin with a colon name sections.

    Raises ClickException for other lines, and for a file without questions.
    """
    sections: dict[str, list[Question]] = {}
    section = "all"
    for number, line in enumerate(read_utf8(path).split("\n"), start=1):
        words = line.split()
        if line.startswith(":"):
            section = line[1:].strip()
        elif len(words) == 4:
            a, b, c, d = words
            sections.setdefault(section, []).append((a, b, c, d))
        elif words:
            raise click.ClickException(f"{path}, line {number}: expected four words or ': section'")
    if not sections:
        raise click.ClickException(f"{path} has no questions; write four words on each line")
    questions = [question for lines in sections.values() for question in lines]
    words = list(dict.fromkeys(word for question in questions for word in question))
    return Analogies(f"analogies {path.name}", sections, words)
