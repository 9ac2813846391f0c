"""Tasks of labelled texts: clustering, and classification by a linear classifier."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from embedwell.tools.evaluation.scoring import Inputs
from embedwell.tools.plots.texts import read_texts
from embedwell_models.vectors import Floats, normalize

_SEED = 0
_FOLDS = 5


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

        folds = StratifiedKFold(self._folds(), shuffle=True, random_state=_SEED)
        classifier: Any = LogisticRegression(max_iter=1000)
        predicted = cross_val_predict(classifier, normalize(vectors[0]), self.labels, cv=folds)
        return {
            "accuracy": 100 * float(accuracy_score(self.labels, predicted)),
            "macro_f1": 100 * float(f1_score(self.labels, predicted, average="macro")),
        }

    def _folds(self) -> int:
        return min(_FOLDS, int(np.bincount(self.labels).min()))


def read_clustering(path: Path, column: str | None, label: str) -> Clustering:
    """Read texts and labels; raises ClickException for fewer than two labels."""
    return Clustering(f"clustering {path.name}", *_read(path, column, label))


def read_classification(path: Path, column: str | None, label: str) -> Classification:
    """Read texts and labels; raises ClickException for a label of a single text."""
    texts, labels = _read(path, column, label)
    if np.bincount(labels).min() < 2:
        raise click.ClickException(
            f"{path}: a label has only one text; each label needs at least two, for training "
            "and for testing"
        )
    return Classification(f"classification {path.name}", texts, labels)


def _read(path: Path, column: str | None, label: str) -> tuple[list[str], npt.NDArray[np.int64]]:
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
