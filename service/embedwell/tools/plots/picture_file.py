"""Write a plot to a file, in the colours of a theme."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from embedwell.cli.atomic_file import replacing, writing
from embedwell.tools.plots.render import Picture, render
from embedwell.tools.plots.style import theme


@contextmanager
def picture_file(output: Path, dark: bool) -> Iterator[Callable[[Picture, str], None]]:
    """Yield a function that writes a plot with a title to a file, in the colours of the block."""
    with replacing(output) as file:

        def write(picture: Picture, title: str) -> None:
            suffix = output.suffix.lower()
            content = render(picture, suffix, title)
            with writing(output):
                file.write(content)
            if picture.omitted:
                click.echo(f"labels left out for lack of room: {picture.omitted}", err=True)

        with theme(dark), _missing_glyphs(output):
            yield write


@contextmanager
def _missing_glyphs(output: Path) -> Iterator[None]:
    """Convert matplotlib's warnings of missing glyphs, one for each, to a single note for a PNG."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    is_glyph = ["missing from font" in str(warning.message) for warning in caught]
    for warning, skip in zip(caught, is_glyph, strict=True):
        if not skip:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if any(is_glyph) and output.suffix.lower() == ".png":
        click.echo(
            "the installed fonts lack some characters; install Noto fonts, or write .svg or "
            ".html, which use the reader's fonts",
            err=True,
        )
