"""Write figures to files: PNG, SVG, or an HTML page that shows texts and values on hover."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from embedwell.cli.atomic_file import replacing, writing
from embedwell_lab.plots.style import theme
from embedwell_models.vectors import Doubles

_MAX_CELLS = 1_000_000  # maximum cells of a page, about 10 MB
_DPI = 200  # twice matplotlib's default of 100
_PAGE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")

_MISSING_GLYPH = "Glyph .* missing from font"  # matplotlib warns of each

Point = tuple[float, float, str]
"""Position of a point, as fractions of the figure from its top left, and its text."""


@dataclass(frozen=True)
class Grid:
    """The cells of a heat map: values (R, C), and the names of rows and columns."""

    axes: Axes
    rows: Sequence[str]
    columns: Sequence[str]
    values: Doubles

    def as_json(self) -> dict[str, Any]:
        """Describe the grid with its place as fractions of the figure: left, top, right, bottom."""
        box = self.axes.get_position()
        return {
            "box": [box.x0, 1 - box.y1, box.x1, 1 - box.y0],
            "rows": self.rows,
            "columns": self.columns,
            "values": np.round(self.values, 4),
        }


@dataclass(frozen=True)
class Picture:
    """A laid-out figure, and the content that a page shows on hover.

    omitted: number of labels that did not fit.
    """

    figure: Figure
    points: Sequence[Point] = ()
    grids: Sequence[Grid] = field(default_factory=tuple)
    omitted: int = 0


def freeze_layout(figure: Figure) -> None:
    """Lay a figure out, and keep that layout."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def render(picture: Picture, suffix: str, title: str) -> bytes:
    """Render a figure in the format of a suffix, .png, .svg or .html, deterministically.

    Raises ClickException for a page with too many numbers.
    """
    if suffix == ".png":
        return _save(picture.figure, "png", {})
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    svg = _save(picture.figure, "svg", {**no_metadata, "Title": title})
    return svg if suffix == ".svg" else _page(picture, svg.decode(), title)


def _save(figure: Figure, format: str, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=format, dpi=_DPI, metadata=metadata)
    return buffer.getvalue()


def _page(picture: Picture, svg: str, title: str) -> bytes:
    cells = sum(grid.values.size for grid in picture.grids)
    if cells > _MAX_CELLS:
        raise click.ClickException(
            f"the page would have {cells:,} numbers, but the limit is {_MAX_CELLS:,}; draw "
            "fewer positions or heads, or write .png or .svg"
        )
    data = {"points": picture.points, "grids": [grid.as_json() for grid in picture.grids]}
    json = orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    parts = {
        "title": escape(title),
        "background": to_hex(picture.figure.get_facecolor()),
        "svg": re.sub("<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL),
        "data": json.replace("<", "\\u003c"),  # no text can end the script
    }
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], _PAGE).encode()


@contextmanager
def picture_file(output: Path, dark: bool) -> Iterator[Callable[[Picture, str], None]]:
    """Yield a function that writes a plot with a title to a file, in the colours of the block."""
    with replacing(output) as file:

        def write(picture: Picture, title: str) -> None:
            suffix = output.suffix.lower()
            with warnings.catch_warnings(record=True) as caught:
                warnings.filterwarnings("always", _MISSING_GLYPH)
                content = render(picture, suffix, title)
            with writing(output):
                file.write(content)
            if picture.omitted:
                click.echo(f"labels left out for lack of room: {picture.omitted}", err=True)
            if caught and suffix == ".png":
                click.echo(
                    "the installed fonts lack some characters; install Noto fonts, or write .svg "
                    "or .html, which use the reader's fonts",
                    err=True,
                )

        with theme(dark), warnings.catch_warnings():
            warnings.filterwarnings("ignore", _MISSING_GLYPH)
            yield write
