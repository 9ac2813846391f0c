"""Similarity task: correlation of cosines with human scores of text or word pairs."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from embedwell.tools.evaluation.scoring import Inputs
from embedwell.tools.plots.texts import read_utf8
from embedwell_models.vectors import Floats, normalize

# Column names in files of sentence-transformers and MTEB, of WordSim-353, and of SimLex-999.
_NAMES = (
    ("sentence1", "text1", "word1", "word 1"),
    ("sentence2", "text2", "word2", "word 2"),
    ("score", "similarity", "similarity_score", "human (mean)", "simlex999"),
)
_PLAIN = (0, 1, 2)
_STS_BENCHMARK = (5, 6, 4)  # genre, file, year, number, score and two sentences, without a header


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
    rows = _rows(path)
    columns = _named_columns(rows[0]) if rows else None
    pairs = []
    for number, row in enumerate(rows, start=1):
        if not row or (columns and number == 1):
            continue
        first, second, score = columns or (_STS_BENCHMARK if len(row) > 6 else _PLAIN)
        try:
            pairs.append((row[first], row[second], float(row[score])))
        except (IndexError, ValueError):
            names = ", ".join(names[0] for names in _NAMES)
            raise click.ClickException(
                f"{path}, row {number}: expected two texts and a number; add a header with "
                f"column names: {names}"
            ) from None
    if len({score for *_, score in pairs}) < 2:
        raise click.ClickException(f"{path} needs at least two pairs with different scores")
    first_texts, second_texts, scores = zip(*pairs, strict=True)
    return Similarity(f"similarity {path.name}", first_texts, second_texts, scores)


def _rows(path: Path) -> list[list[str]]:
    content = io.StringIO(read_utf8(path), newline="")
    if path.suffix.lower() == ".csv":
        return list(csv.reader(content))
    # Quotation marks in sentences of the STS benchmark do not quote fields.
    return list(csv.reader(content, delimiter="\t", quoting=csv.QUOTE_NONE))


def _named_columns(header: Sequence[str]) -> tuple[int, int, int] | None:
    columns = [column.strip().lower() for column in header]
    indices = [
        next((columns.index(name) for name in names if name in columns), None) for names in _NAMES
    ]
    first, second, score = indices
    return None if first is None or second is None or score is None else (first, second, score)
