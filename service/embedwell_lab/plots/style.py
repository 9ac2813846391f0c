"""Colours, fonts and text styles of all plots."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.colors import Colormap, ListedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

# Tableau's colours without grey, which marks points without a value.
PALETTE = [to_hex(color) for color in mpl.colormaps["tab10"](np.delete(np.arange(10), 7))]
MAX_CATEGORIES = len(PALETTE)
NO_VALUE = "tab:gray"

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
    installed = {font.name for font in fontManager.ttflist}
    options: dict[Any, Any] = {
        "font.sans-serif": [font for font in _FONTS if font in installed],
        "legend.frameon": False,
        "text.parse_math": False,  # a text with two dollar signs is not a formula
        "svg.fonttype": "none",  # texts are searchable, and use the glyphs of the reader's fonts
        "svg.hashsalt": "embedwell",  # makes the bytes of a figure reproducible
    }
    with mpl.style.context(["default", *["dark_background"] * dark, options]):
        yield


def is_dark() -> bool:
    """Return whether the current theme is dark."""
    return bool(mpl.rcParams["figure.facecolor"] == "black")


def set_title(figure: Figure, title: str) -> None:
    """Write a title at the top left, on as many lines as it needs."""
    width = int(figure.get_figwidth() * 11)  # characters
    lines = [wrapped for line in title.split("\n") for wrapped in textwrap.wrap(line, width)]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11)


def diverging_colors() -> str:
    """Return a colour map whose middle is near the background."""
    return "berlin" if is_dark() else "RdBu_r"


def point_colors() -> Colormap:
    """Return a colour map whose colours all contrast with the background."""
    shades = np.linspace(0.3, 1, 256) if is_dark() else np.linspace(0, 0.9, 256)
    return ListedColormap(mpl.colormaps["viridis"](shades))


def category_colors(count: int) -> list[str]:
    """Return a colour for each of `count` categories."""
    if count <= MAX_CATEGORIES:
        return PALETTE[:count]
    return [to_hex(color) for color in mpl.colormaps["turbo"](np.linspace(0.05, 0.95, count))]


def shorten(text: str, length: int) -> str:
    """Return a text on one line of at most `length` characters, cut with an ellipsis."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(printable.split())
    return line if len(line) <= length else f"{line[: length - 1].rstrip()}…"
