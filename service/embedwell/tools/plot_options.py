"""Options that all commands of `embedwell plot` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.cli.extras import require
from embedwell.tools.source_options import source_options

F = TypeVar("F", bound=Callable[..., Any])

TEXT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SUFFIXES = (".png", ".svg", ".html")


def output_path(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    """Check the suffix, and that the packages for drawing are installed."""
    if path is None:
        return None
    if path.suffix.lower() not in _SUFFIXES:
        raise click.BadParameter(f"{path}: the name must end in {', '.join(_SUFFIXES)}")
    require("matplotlib", "sklearn")
    return path


def text_options(command: F) -> F:
    """Add the options of texts to embed."""
    column = "Column of a .csv, .tsv or .jsonl.  [default: text, or the only column]"
    for option in (
        click.option("--prompt", help="Text to put before every text."),
        click.option("--column", help=column),
    ):
        command = option(command)
    return command


def drawing_options(command: F) -> F:
    """Add the options of all plots: file, colours, and source of vectors."""
    for option in (
        source_options,
        click.option("--dark", is_flag=True, help="Use light colours on a dark background."),
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            required=True,
            callback=output_path,
            help="File to write: .png, .svg or .html.",
        ),
    ):
        command = option(command)
    return command
