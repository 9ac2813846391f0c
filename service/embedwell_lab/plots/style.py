"""Colours, fonts and text styles of all plots."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

# Tableau's colours without grey, which marks points without a value.
PALETTE = (
    *("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd"),
    *("#8c564b", "#e377c2", "#bcbd22", "#17becf"),
)
MAX_CATEGORIES = len(PALETTE)
NO_VALUE = "#8b949e"

_DARK = "#0d1117"
_FONTS = (
    *("DejaVu Sans", "Noto Sans", "Arial Unicode MS"),
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "WenQuanYi Zen Hei"),
    *("Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Malgun Gothic"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai"),
    *("Noto Emoji", "Segoe UI Emoji"),
)


@contextmanager
def theme(dark: bool) -> Iterator[None]:
    """Draw and save the figures of the block in light or dark colours."""
    foreground, background = ("#e6edf3", _DARK) if dark else ("#1f2328", "#ffffff")
    lines = "#3d444d" if dark else "#d1d9e0"
    installed = {font.name for font in fontManager.ttflist}
    colors: dict[Any, Any] = {
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), background),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), foreground),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), foreground),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), lines),
    }
    options: dict[Any, Any] = {
        "font.family": ["sans-serif"],
        "font.sans-serif": [font for font in _FONTS if font in installed],
        "font.size": 10,
        "axes.titlesize": 10,
        "figure.titlesize": 12,
        "legend.frameon": False,
        "text.parse_math": False,  # a text with two dollar signs is not a formula
        "svg.fonttype": "none",  # texts are searchable, and use the glyphs of the reader's fonts
        "svg.hashsalt": "embedwell",  # makes the bytes of a figure reproducible
    }
    with mpl.rc_context({**colors, **options}):
        yield


def is_dark() -> bool:
    """Return whether the current theme is dark."""
    return bool(mpl.rcParams["figure.facecolor"] == _DARK)


def set_title(figure: Figure, title: str) -> None:
    """Write a title at the top left, on as many lines as it needs."""
    width = int(figure.get_figwidth() * 11)  # characters
    lines = [wrapped for line in title.split("\n") for wrapped in textwrap.wrap(line, width)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11)


def diverging_colors() -> str:
    """Return a colour map whose middle is near the background."""
    return "berlin" if is_dark() else "RdBu_r"


def cyclic_colors() -> str:
    """Return a colour map whose ends are the same, and whose middle is near the background."""
    return "twilight" if is_dark() else "twilight_shifted"


def point_colors() -> Colormap:
    """Return a colour map whose colours all contrast with the background."""
    shades = np.linspace(0.3, 1, 256) if is_dark() else np.linspace(0, 0.9, 256)
    return ListedColormap(mpl.colormaps["viridis"](shades))


def category_colors(count: int) -> list[str]:
    """Return a colour for each of `count` categories."""
    if count <= MAX_CATEGORIES:
        return list(PALETTE[:count])
    return [to_hex(color) for color in mpl.colormaps["turbo"](np.linspace(0.05, 0.95, count))]


def shorten(text: str, length: int) -> str:
    """Return a text on one line of at most `length` characters, cut with an ellipsis."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(printable.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"
