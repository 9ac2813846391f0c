"""Write texts beside points without overlaps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from embedwell.tools.plots.style import shorten
from embedwell_models.vectors import Doubles, Floats

_LENGTH = 30  # characters
_GAP = 6.0  # typographic points between a point and its label
_RADIUS = 4.0  # radius of a point, in pixels
_MAX_TRIED = (
    1000  # maximum texts, evenly chosen; no page has room for more, and measuring each takes time
)

Side = tuple[str, str, float, float]
"""Alignment of a label, and the direction in which it lies from its point."""

_SIDES: Sequence[Side] = (
    *(("left", "center", 1, 0), ("right", "center", -1, 0)),
    *(("center", "bottom", 0, 1), ("center", "top", 0, -1)),
    *(("left", "bottom", 0.5, 0.5), ("left", "top", 0.5, -0.5)),
    *(("right", "bottom", -0.5, 0.5), ("right", "top", -0.5, -0.5)),
)


def place(axes: Axes, points: Floats, texts: Sequence[str]) -> int:
    """Label points (B, 2) of laid-out axes; return the number of labels that fit.

    A label takes the first side of its point where it covers neither labels nor other points.
    """
    pixels = axes.transData.transform(points)
    area = np.array(axes.bbox.extents)
    boxes = np.empty((0, 4))  # boxes of the labels: left, bottom, right, top in pixels
    for index in range(0, len(texts), -(-len(texts) // _MAX_TRIED)):
        text = shorten(texts[index], _LENGTH)
        label = axes.annotate(
            text, tuple(points[index]), xytext=(0, 0), textcoords="offset points", fontsize=8
        )
        for side in _SIDES:
            box = _move(label, side)
            if _inside(box, area) and not (_overlaps(box, boxes) or _covers(box, pixels)):
                boxes = np.vstack([boxes, box])
                break
        else:
            label.remove()
    return len(boxes)


def _move(label: Annotation, side: Side) -> Doubles:
    """Move a label to a side of its point, and return its new box."""
    horizontal, vertical, right, up = side
    label.set(ha=horizontal, va=vertical, position=(right * _GAP, up * _GAP))
    return np.array(label.get_window_extent().extents)


def _inside(box: Doubles, area: Doubles) -> bool:
    return bool((box[:2] >= area[:2]).all() and (box[2:] <= area[2:]).all())


def _overlaps(box: Doubles, boxes: Doubles) -> bool:
    """Return whether a box overlaps one of (N, 4) others."""
    beside = (box[:2] >= boxes[:, 2:]).any(axis=1) | (box[2:] <= boxes[:, :2]).any(axis=1)
    return not beside.all()


def _covers(box: Doubles, points: Doubles) -> bool:
    """Return whether a box covers one of the points (B, 2)."""
    inside = (points > box[:2] - _RADIUS) & (points < box[2:] + _RADIUS)
    return bool(inside.all(axis=1).any())
