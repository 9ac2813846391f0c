"""Heat maps: matrices as colours, one or several in a figure, and similarities of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from embedwell_lab.plots.render import Grid, Picture, freeze_layout
from embedwell_lab.plots.style import set_title, shorten
from embedwell_models.vectors import Floats

Array = npt.NDArray[Any]

_PANEL = 4.2  # inches of a heat map among several
_SMALL_PANEL = 2.6  # inches of a heat map among more than four
_COLUMNS = 4  # heat maps in a row


@dataclass(frozen=True)
class Panel:
    """A matrix of positions: values (R, C), NaN for a masked cell.

    rows, columns: names of the row and column axes.
    label: of the colour bar, which panels with the same norm share.
    colors: name of a colour map.
    first_row: position of the first row.
    """

    title: str
    values: Array
    rows: str
    columns: str
    label: str
    norm: Normalize
    colors: str = "viridis"
    first_row: int = 0


def draw_panels(panels: Sequence[Panel], title: str) -> Picture:
    """Draw heat maps side by side."""
    count = len(panels)
    across = min(count, 2 if count == 4 else _COLUMNS)
    down = -(-count // across)
    size = _SMALL_PANEL if count > 4 else _PANEL
    figure = Figure(figsize=(across * size * 1.15 + 1, down * size + 0.8), layout="constrained")
    set_title(figure, title)
    every = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for axes in every[count:]:
        axes.remove()
    images = [_draw_image(axes, panel) for axes, panel in zip(every, panels, strict=False)]
    for norm, panel in {panel.norm: panel for panel in panels}.items():
        drawn = [image for image in images if image.norm is norm]
        places = [image.axes for image in drawn]
        figure.colorbar(drawn[0], ax=places, label=panel.label, shrink=0.8)
    freeze_layout(figure)
    return Picture(figure, grids=[*map(_grid, every, panels)])


def _draw_image(axes: Axes, panel: Panel) -> AxesImage:
    height, width = panel.values.shape
    first, last = panel.first_row, panel.first_row + height - 1
    axes.set(title=panel.title, xlabel=panel.columns, ylabel=panel.rows)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
    return axes.imshow(
        panel.values,
        cmap=mpl.colormaps[panel.colors].with_extremes(bad="gray"),
        norm=panel.norm,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, last + 0.5, first - 0.5),
    )


def _grid(axes: Axes, panel: Panel) -> Grid:
    height, width = panel.values.shape
    rows = [f"{panel.rows} {panel.first_row + index}" for index in range(height)]
    columns = [f"{panel.columns} {index}" for index in range(width)]
    return Grid(axes, rows, columns, panel.values)


_MAX_LABELS = 100  # maximum texts on a side with labels
_MAX_NUMBERS = 20  # maximum texts on a side with values in the cells
_LABEL_LENGTH = 32  # characters
_DISTANCES = ("euclidean", "manhattan")


def draw_similarity(
    scores: Floats, metric: str, rows: Sequence[str], columns: Sequence[str], title: str
) -> Picture:
    """Draw scores (R, C) of row texts with column texts.

    Distances, which are given as negative scores, are shown as distances, with reversed colours.
    """
    is_distance = metric in _DISTANCES
    values = (np.abs(scores) if is_distance else scores).astype(np.float64)
    figure = Figure(figsize=_figure_size(values.shape), layout="constrained")
    set_title(figure, title)
    axes = figure.subplots()
    limits = (min(0.0, values.min()), 1.0) if metric == "cosine" else (None, None)
    colors = "viridis_r" if is_distance else "viridis"
    image = axes.imshow(values, colors, Normalize(*limits), aspect="auto", interpolation="nearest")
    label = f"{metric} distance" if is_distance else metric
    figure.colorbar(image, ax=axes, label=label, shrink=min(1.0, 4 / figure.get_figheight()))
    for axis, texts in ((axes.yaxis, rows), (axes.xaxis, columns)):
        if len(texts) > _MAX_LABELS:
            axis.set_label_text(f"{len(texts)} texts")
        else:
            axis.set_ticks(range(len(texts)), [shorten(text, _LABEL_LENGTH) for text in texts])
    if len(columns) <= _MAX_LABELS:
        axes.tick_params("x", rotation=90)
    if max(values.shape) <= _MAX_NUMBERS:
        _write_values(axes, image)
    freeze_layout(figure)
    grid = Grid(axes, [text[:500] for text in rows], [text[:500] for text in columns], values)
    return Picture(figure, grids=[grid])


def _figure_size(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return width and height in inches, so that numbers or labels fit."""
    if max(shape) <= _MAX_NUMBERS:
        height, width = (max(0.5 * count, 1.5) for count in shape)
    else:
        height, width = (max(0.17 * count * (count <= _MAX_LABELS), 8.0) for count in shape)
    return width + 3.4, height + 2.6


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
