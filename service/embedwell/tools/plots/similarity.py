"""A heat map of the similarity of texts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from embedwell.tools.plots.render import Grid, Picture, freeze_layout
from embedwell.tools.plots.style import set_title, shorten
from embedwell_models.vectors import Floats

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
    figure = Figure(figsize=_size(values.shape), layout="constrained")
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


def _size(shape: tuple[int, ...]) -> tuple[float, float]:
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
