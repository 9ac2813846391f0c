"""Colours of points: by a column's categories or numbers, or by cluster."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell.tools.plots.style import MAX_CATEGORIES, shorten
from embedwell_models.vectors import Doubles, Floats

_NAME_LENGTH = 32  # maximum characters of a category in the legend


@dataclass(frozen=True)
class Categories:
    """A category for each of B points.

    names: names in the order of the legend.
    codes (B,): the index of each point's name, -1 for a point without a value.
    descriptions: the full text for each point.
    """

    title: str
    names: list[str]
    codes: npt.NDArray[np.int64]
    descriptions: list[str]


@dataclass(frozen=True)
class Numbers:
    """A number for each of B points: values (B,), NaN for a point without a number."""

    title: str
    values: Doubles

    @property
    def descriptions(self) -> list[str]:
        """Describe the number of each point."""
        return ["" if np.isnan(value) else f"{self.title}: {value:g}" for value in self.values]


Coloring = Categories | Numbers


def color_by_column(title: str, values: Sequence[Any]) -> Coloring:
    """Return Numbers if all values but None are numbers, else categories, the most frequent first.

    Categories beyond MAX_CATEGORIES share the last name, "others".
    """
    present = [value for value in values if value is not None]
    if present and all(type(value) in (int, float) for value in present):
        return Numbers(title, np.array([np.nan if v is None else v for v in values], np.float64))
    texts = [None if value is None else _category(value) for value in values]
    counts = Counter(text for text in texts if text is not None).most_common()
    shown = len(counts) if len(counts) <= MAX_CATEGORIES else MAX_CATEGORIES - 1
    codes = {name: min(code, shown) for code, (name, _) in enumerate(counts)}
    names = [f"{shorten(name, _NAME_LENGTH)} ({count})" for name, count in counts[:shown]]
    if rest := counts[shown:]:
        names.append(f"{len(rest)} others ({sum(count for _, count in rest)})")
    return Categories(
        title,
        names,
        np.array([-1 if text is None else codes[text] for text in texts], np.int64),
        ["" if text is None else f"{title}: {text}" for text in texts],
    )


def color_by_cluster(
    texts: Sequence[str], vectors: Floats, labels: npt.NDArray[np.int64]
) -> Categories:
    """Return clusters in the order of their size, each named by the text nearest to its centre.

    vectors: (B, D), of unit length.
    labels: (B,), the cluster of each text.
    """
    order = [label for label, _ in Counter(labels.tolist()).most_common()]
    codes = np.argsort(order)[labels]
    names = []
    for code in range(len(order)):
        members = np.flatnonzero(codes == code)
        centre = vectors[members].mean(axis=0)
        typical = texts[members[np.argmax(vectors[members] @ centre)]]
        names.append(f"{code + 1}: {shorten(typical, _NAME_LENGTH)} ({len(members)})")
    descriptions = [f"cluster {code + 1}" for code in codes]
    return Categories("cluster: its most typical text", names, codes, descriptions)


def _category(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value}"
