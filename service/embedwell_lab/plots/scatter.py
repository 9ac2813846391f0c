"""A map of texts: a coloured point for each, and the texts next to them where there is room."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import textalloc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedwell_lab.plots.projection import Projection
from embedwell_lab.plots.render import Picture, Point, freeze_layout
from embedwell_lab.plots.style import (
    MAX_CATEGORIES,
    NO_VALUE,
    PALETTE,
    category_colors,
    point_colors,
    set_title,
    shorten,
)
from embedwell_models.vectors import Doubles, Floats

_WIDTH, _HEIGHT = 9.0, 6.5  # inches
_MANY_POINTS = 5000  # more than this become one image in an SVG
_NAME_LENGTH = 32  # maximum characters of a category in the legend
_LABEL_LENGTH = 30  # maximum characters of a text next to its point
_HOVER_LENGTH = 500  # maximum characters of a text on hover
_LABEL_SIZE = 8  # typographic points
_LABEL_DISTANCE = 0.03  # maximum from the point, as a fraction of the axes
_LABEL_CANDIDATES = 40  # places to try for a label
# Maximum texts to place, evenly chosen; no page has room for more, and measuring each takes time.
_MAX_LABELS = 500


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


def draw_map(
    projection: Projection,
    texts: Sequence[str],
    title: str,
    coloring: Coloring | None = None,
    with_labels: bool = False,
) -> Picture:
    """Draw B points, with colours and a legend if there is a coloring.

    with_labels: write the texts next to their points, as many as fit.
    """
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    set_title(figure, f"{title}\n{projection.name}")
    axes = figure.subplots()
    axes.set(xlabel=projection.axes[0], ylabel=projection.axes[1])
    axes.margins(0.08)
    axes.set(xticks=[], yticks=[])  # only distances have a meaning
    axes.spines[["top", "right"]].set_visible(False)
    _draw_points(axes, projection, coloring)
    freeze_layout(figure)
    placed = place_labels(axes, projection.points, texts) if with_labels else len(texts)
    return Picture(
        figure, points=_hover(axes, projection, texts, coloring), omitted=len(texts) - placed
    )


def _draw_points(axes: Axes, projection: Projection, coloring: Coloring | None) -> None:
    count = len(projection.points)
    style: dict[str, Any] = {
        "s": float(np.clip(6000 / count, 10, 40)),  # square points
        "edgecolors": axes.get_facecolor(),  # outline of points that overlap
        "linewidths": 0.4,
        "rasterized": count > _MANY_POINTS,
    }
    x, y = projection.points.T
    match coloring:
        case None:
            axes.scatter(x, y, color=PALETTE[0], **style)
        case Numbers(values=values):
            missing = np.isnan(values)
            axes.scatter(x[missing], y[missing], color=NO_VALUE, **style)
            style["cmap"] = point_colors()
            points = axes.scatter(x[~missing], y[~missing], c=values[~missing], **style)
            label = shorten(coloring.title, 40) + " (grey: no value)" * bool(missing.any())
            is_integer = bool((values[~missing] % 1 == 0).all())
            ticks = MaxNLocator(8, integer=is_integer)
            axes.figure.colorbar(points, ax=axes, label=label, ticks=ticks, shrink=0.7)
        case Categories():
            _draw_categories(axes, projection, coloring, style)


def _draw_categories(
    axes: Axes, projection: Projection, coloring: Categories, style: dict[str, Any]
) -> None:
    names = [*coloring.names, f"no value ({(coloring.codes < 0).sum()})"]
    colors = [*category_colors(len(coloring.names)), NO_VALUE]
    codes = np.where(coloring.codes < 0, len(coloring.names), coloring.codes)
    handles = []
    for code in np.unique(codes):
        x, y = projection.points[codes == code].T
        handles.append(axes.scatter(x, y, color=colors[code], label=names[code], **style))
    axes.figure.legend(
        handles=handles,
        title=shorten(coloring.title, 40),
        loc="outside right upper",
        alignment="left",
        fontsize=9,
        markerscale=(40 / style["s"]) ** 0.5,
    )


def _hover(
    axes: Axes, projection: Projection, texts: Sequence[str], coloring: Coloring | None
) -> list[Point]:
    pixels = axes.transData.transform(projection.points)
    fractions = pixels / axes.figure.bbox.size
    notes = coloring.descriptions if coloring else [""] * len(texts)
    return [
        (float(x), float(1 - y), f"{text[:_HOVER_LENGTH]}\n{note}".strip())
        for (x, y), text, note in zip(fractions, texts, notes, strict=True)
    ]


def place_labels(axes: Axes, points: Floats, texts: Sequence[str]) -> int:
    """Label points (B, 2) of laid-out axes; return the number of labels that fit.

    No label covers another label or a point.
    """
    chosen = slice(None, None, -(-len(texts) // _MAX_LABELS))
    x, y = points.T
    _, _, labels, _ = textalloc.allocate(
        axes,
        *(x[chosen], y[chosen], [shorten(text, _LABEL_LENGTH) for text in texts[chosen]]),
        x_scatter=x,
        y_scatter=y,
        textsize=_LABEL_SIZE,
        textcolor=mpl.rcParams["text.color"],
        max_distance=_LABEL_DISTANCE,
        nbr_candidates=_LABEL_CANDIDATES,
        draw_lines=False,
        draw_all=False,
    )
    return sum(label is not None for label in labels)
