"""Heat maps: matrices as colours, one or several in a figure, and similarities of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from embedwell_lab.plots.render import Grid, Picture, freeze_layout
from embedwell_lab.plots.style import diverging_colors, set_title, shorten
from embedwell_models.vectors import Floats

Array = npt.NDArray[Any]

_PANEL = 4.2  # inches of a heat map among several
_SMALL_PANEL = 2.6  # inches of a heat map among more than four
_COLUMNS = 4  # heat maps in a row


@dataclass(frozen=True)
class Scale:
    """Mapping of values to colours.

    label: label of the colour bar.
    cubic: whether colours use the cube root of a value, so that small values differ visibly.
    clipped: whether some values lie beyond the ends.
    ticks: ticks of the colour bar; chosen automatically by default.
    """

    label: str
    low: float
    high: float
    colors: str = "viridis"
    cubic: bool = False
    clipped: bool = False
    ticks: tuple[float, ...] | None = None

    @classmethod
    def symmetric(cls, label: str, values: Array) -> "Scale":
        """A diverging scale around zero; a few values far beyond the others are clipped."""
        largest, usual = np.percentile(np.abs(values), (100, 99.5)).tolist()
        clipped = largest > 1.5 * usual > 0
        limit = (usual if clipped else largest) or 1.0
        return cls(label, -limit, limit, diverging_colors(), clipped=clipped)

    @property
    def norm(self) -> Normalize:
        """Create matplotlib's norm for the values."""
        if self.cubic:
            return FuncNorm((np.cbrt, lambda root: root**3), self.low, self.high)
        return Normalize(self.low, self.high)


@dataclass(frozen=True)
class Panel:
    """A matrix of positions: values (R, C), NaN for a masked cell.

    rows, columns: names of the row and column axes.
    first_row: position of the first row.
    """

    title: str
    values: Array
    rows: str
    columns: str
    scale: Scale
    first_row: int = 0


def draw_panels(panels: Sequence[Panel], title: str) -> Picture:
    """Draw heat maps side by side; adjacent ones with the same scale share a colour bar."""
    count = len(panels)
    across = min(count, 2 if count == 4 else _COLUMNS)
    down = -(-count // across)
    size = _SMALL_PANEL if count > 4 else _PANEL
    figure = Figure(figsize=(across * size * 1.15 + 1, down * size + 0.8), layout="constrained")
    set_title(figure, title)
    places = figure.subplots(down, across, squeeze=False).flat
    shared = count > 1 and all(panel.scale == panels[0].scale for panel in panels)
    grids = []
    for axes, panel in zip(places, panels, strict=False):
        draw_image(axes, panel, bar=not shared)
        grids.append(_grid(axes, panel))
    for axes in places[count:]:
        axes.remove()
    if shared:
        drawn = [grid.axes for grid in grids]
        _draw_bar(drawn[0].images[0], panels[0].scale, drawn)
    freeze_layout(figure)
    return Picture(figure, grids=grids)


def draw_image(axes: Axes, panel: Panel, *, bar: bool) -> None:
    """Draw a heat map into axes.

    bar: whether to add a colour bar.
    """
    height, width = panel.values.shape
    first, last = panel.first_row, panel.first_row + height - 1
    colors = mpl.colormaps[panel.scale.colors].with_extremes(bad=mpl.rcParams["axes.edgecolor"])
    image = axes.imshow(
        panel.values,
        cmap=colors,
        norm=panel.scale.norm,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, last + 0.5, first - 0.5),
    )
    axes.set(title=panel.title, xlabel=panel.columns, ylabel=panel.rows)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10), integer=True))
    if bar:
        _draw_bar(image, panel.scale, [axes])


def _draw_bar(image: AxesImage, scale: Scale, axes: Sequence[Axes]) -> None:
    extend = "both" if scale.clipped else "neither"
    ticks = scale.ticks or MaxNLocator(8, steps=(1, 2, 5, 10))
    image.figure.colorbar(image, ax=axes, label=scale.label, ticks=ticks, extend=extend, shrink=0.8)


def _grid(axes: Axes, panel: Panel) -> Grid:
    height, width = panel.values.shape
    rows = [f"{panel.rows} {panel.first_row + index}" for index in range(height)]
    columns = [f"{panel.columns} {index}" for index in range(width)]
    return Grid(axes, rows, columns, panel.values)


_MAX_LABELS = 100  # maximum texts on a side with labels
_MAX_NUMBERS = 20  # maximum texts on a side with values in the cells
_LABEL_LENGTHS = (40, 28)  # characters of row and column labels
_DISTANCES = ("euclidean", "manhattan")


def draw_similarity(
    scores: Floats, metric: str, rows: Sequence[str], columns: Sequence[str], title: str
) -> Picture:
    """Draw scores (R, C) of row texts with column texts.

    Distances, which are given as negative scores, are shown as distances, with reversed colours.
    """
    is_distance = metric in _DISTANCES
    values = np.abs(scores).astype(np.float64) if is_distance else scores.astype(np.float64)
    figure = Figure(figsize=_figure_size(values.shape), layout="constrained")
    set_title(figure, title)
    axes = figure.subplots()
    image = axes.imshow(
        values,
        cmap="viridis_r" if is_distance else "viridis",
        vmin=min(0.0, values.min()) if metric == "cosine" else None,
        vmax=1.0 if metric == "cosine" else None,
        aspect="auto",
        interpolation="nearest",
    )
    label = f"{metric} distance" if is_distance else metric
    figure.colorbar(image, ax=axes, label=label, shrink=min(1.0, 4 / figure.get_figheight()))
    _label_sides(axes, rows, columns)
    if max(values.shape) <= _MAX_NUMBERS:
        _write_values(axes, image)
    freeze_layout(figure)
    grid = Grid(axes, [text[:500] for text in rows], [text[:500] for text in columns], values)
    return Picture(figure, grids=[grid])


def _figure_size(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return width and height in inches, so that numbers or labels fit."""
    sides = []
    for count in shape:
        cell = 0.5 if max(shape) <= _MAX_NUMBERS else max(0.17, 8 / count)
        cells = count * cell if count <= _MAX_LABELS else 8.0
        sides.append(max(cells, 1.5) + 2.6)
    height, width = sides
    return width + 0.8, height


def _label_sides(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    sides = ((axes.yaxis, rows), (axes.xaxis, columns))
    for (axis, texts), length in zip(sides, _LABEL_LENGTHS, strict=True):
        if len(texts) > _MAX_LABELS:
            axis.set_label_text(f"{len(texts)} texts")
            continue
        axis.set_ticks(range(len(texts)), [shorten(text, length) for text in texts], fontsize=8)
        axis.set_tick_params(length=0)
    for tick in axes.get_xticklabels() if len(columns) <= _MAX_LABELS else ():
        rotation = 45 if len(columns) <= _MAX_NUMBERS else 90  # between narrow columns
        tick.set(rotation=rotation, ha="right", va="center", rotation_mode="anchor")


def _write_values(axes: Axes, image: AxesImage) -> None:
    """Write each value into its cell, in black or white for the better contrast."""
    values = np.asarray(image.get_array())
    largest = np.abs(values).max()
    decimals = 2 if largest < 10 else 1 if largest < 100 else 0
    luminance = image.to_rgba(values)[..., :3] @ np.array([0.2126, 0.7152, 0.0722])
    for row, column in np.ndindex(values.shape):
        color = "black" if luminance[row, column] > 0.45 else "white"
        text = f"{values[row, column]:.{decimals}f}"
        axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
