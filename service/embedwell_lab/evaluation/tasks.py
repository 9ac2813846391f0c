"""Tasks of one file: similarity of pairs, analogies of words, and texts with labels."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from embedwell_lab.evaluation.scoring import Inputs
from embedwell_lab.texts import read_texts, read_utf8
from embedwell_models.vectors import Floats, normalize

# Column names in files of sentence-transformers and MTEB, of WordSim-353, and of SimLex-999.
_PAIR_HEADERS = (
    ("sentence1", "text1", "word1", "word 1"),
    ("sentence2", "text2", "word2", "word 2"),
    ("score", "similarity", "similarity_score", "human (mean)", "simlex999"),
)
_PLAIN_COLUMNS = (0, 1, 2)
# The STS benchmark's: genre, file, year, number, score and two sentences, without a header.
_STS_COLUMNS = (5, 6, 4)
_QUESTIONS_AT_ONCE = 1024  # whose cosines with all words are in memory together
_SEED = 0  # of clusters and folds
_FOLDS = 5


@dataclass(frozen=True)
class Similarity:
    """B pairs of texts, each with a score by people."""

    name: str
    first: Sequence[str]
    second: Sequence[str]
    expected: Sequence[float]

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the texts of both sides."""
        return Inputs(self.first), Inputs(self.second)

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return Spearman's and Pearson's correlation of the cosines with the scores, times 100."""
        from scipy import stats  # type: ignore[import-untyped]

        first, second = (normalize(side).astype(np.float64) for side in vectors)
        cosines = np.vecdot(first, second)
        return {
            "spearman": 100 * float(stats.spearmanr(cosines, self.expected).statistic),
            "pearson": 100 * float(stats.pearsonr(cosines, self.expected).statistic),
        }


def read_similarity(path: Path) -> Similarity:
    """Read text pairs with scores from a file with commas (.csv) or tabs (any other suffix).

    Columns are found by name. Without a header, they are two texts and a score, or those of the STS
    benchmark's own files. Raises ClickException for a file with other columns.
    """
    rows = _pair_rows(path)
    columns = _named_columns(rows[0]) if rows else None
    pairs = []
    for number, row in enumerate(rows, start=1):
        if not row or (columns and number == 1):
            continue
        first, second, score = columns or (_STS_COLUMNS if len(row) > 6 else _PLAIN_COLUMNS)
        try:
            pairs.append((row[first], row[second], float(row[score])))
        except (IndexError, ValueError):
            names = ", ".join(names[0] for names in _PAIR_HEADERS)
            raise click.ClickException(
                f"{path}, row {number}: expected two texts and a number; add a header with "
                f"column names: {names}"
            ) from None
    if len({score for *_, score in pairs}) < 2:
        raise click.ClickException(f"{path} needs at least two pairs with different scores")
    first_texts, second_texts, scores = zip(*pairs, strict=True)
    return Similarity(f"similarity {path.name}", first_texts, second_texts, scores)


def _pair_rows(path: Path) -> list[list[str]]:
    content = io.StringIO(read_utf8(path), newline="")
    if path.suffix.lower() == ".csv":
        return list(csv.reader(content))
    # Quotation marks in sentences of the STS benchmark do not quote fields.
    return list(csv.reader(content, delimiter="\t", quoting=csv.QUOTE_NONE))


def _named_columns(header: Sequence[str]) -> tuple[int, int, int] | None:
    columns = [column.strip().lower() for column in header]
    indices = [
        next((columns.index(name) for name in names if name in columns), None)
        for names in _PAIR_HEADERS
    ]
    first, second, score = indices
    return None if first is None or second is None or score is None else (first, second, score)


Question = tuple[str, str, str, str]
"""Words a, b, c and d: a is to b as c is to d."""


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
    for start in range(0, len(questions), _QUESTIONS_AT_ONCE):
        a, b, c, d = questions[start : start + _QUESTIONS_AT_ONCE].T
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


@dataclass(frozen=True)
class Labelled:
    """B texts with labels as numbers from 0."""

    name: str
    texts: Sequence[str]
    labels: npt.NDArray[np.int64]


class Clustering(Labelled):
    """k-means clustering of the vectors, with as many clusters as labels."""

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the texts, with the role for clustering."""
        return (Inputs(self.texts, "clustering"),)

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return V-measure (Rosenberg and Hirschberg 2007) and purity, times 100.

        Purity is the share of texts that have the most frequent label of their cluster.
        """
        from sklearn.cluster import KMeans  # type: ignore[import-untyped]
        from sklearn.metrics import v_measure_score  # type: ignore[import-untyped]

        count = int(self.labels.max()) + 1
        clusters = KMeans(count, n_init=10, random_state=_SEED).fit_predict(normalize(vectors[0]))
        table = np.zeros((count, count), dtype=np.int64)
        np.add.at(table, (clusters, self.labels), 1)
        return {
            "v_measure": 100 * float(v_measure_score(self.labels, clusters)),
            "purity": 100 * float(table.max(axis=1).sum() / len(self.labels)),
        }


class Classification(Labelled):
    """Logistic regression on the vectors."""

    @property
    def inputs(self) -> Sequence[Inputs]:
        """Return the texts, with the role for classification."""
        return (Inputs(self.texts, "classification"),)

    def scores(self, *vectors: Floats) -> Mapping[str, float]:
        """Return accuracy and macro F1 on held-out texts, times 100.

        Cross-validation has 5 folds, or as many as the rarest label has texts.
        """
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
        from sklearn.metrics import accuracy_score, f1_score
        from sklearn.model_selection import StratifiedKFold, cross_val_predict  # type: ignore[import-untyped]

        count = min(_FOLDS, int(np.bincount(self.labels).min()))
        folds = StratifiedKFold(count, shuffle=True, random_state=_SEED)
        classifier: Any = LogisticRegression(max_iter=1000)
        predicted = cross_val_predict(classifier, normalize(vectors[0]), self.labels, cv=folds)
        return {
            "accuracy": 100 * float(accuracy_score(self.labels, predicted)),
            "macro_f1": 100 * float(f1_score(self.labels, predicted, average="macro")),
        }


def read_clustering(path: Path, column: str | None, label: str) -> Clustering:
    """Read texts and labels; raises ClickException for fewer than two labels."""
    return Clustering(f"clustering {path.name}", *_read_labels(path, column, label))


def read_classification(path: Path, column: str | None, label: str) -> Classification:
    """Read texts and labels; raises ClickException for a label of a single text."""
    texts, labels = _read_labels(path, column, label)
    if np.bincount(labels).min() < 2:
        raise click.ClickException(
            f"{path}: a label has only one text; each label needs at least two, for training "
            "and for testing"
        )
    return Classification(f"classification {path.name}", texts, labels)


def _read_labels(
    path: Path, column: str | None, label: str
) -> tuple[list[str], npt.NDArray[np.int64]]:
    table = read_texts(path, column, label)
    if None in table.values:
        raise click.ClickException(
            f"{path}: {table.values.count(None)} texts have no {label!r}; label them, or take "
            "them out"
        )
    counts = Counter(str(value) for value in table.values)
    if len(counts) < 2:
        raise click.ClickException(
            f"{path}: all texts have the same {label!r}; give at least two different labels"
        )
    number = {name: index for index, name in enumerate(sorted(counts))}
    return table.texts, np.array([number[str(value)] for value in table.values])
