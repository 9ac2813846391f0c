"""Options that commands of `embedwell plot` and `embedwell evaluate` share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.cli.options import ENGINE, MODEL, check_urls, decorate, options, require

F = TypeVar("F", bound=Callable[..., Any])

_SUFFIXES = (".png", ".svg", ".html")


def source_options(command: F) -> F:
    """Add the options of a VectorSource."""
    return decorate(
        command,
        options(*MODEL, *ENGINE),
        click.option(
            "--server",
            metavar="URL",
            callback=check_urls,
            help="Use a running server instead of loading a model.",
        ),
        click.option("--api-key", envvar="EMBEDWELL_API_KEY", help="API key of the server."),
    )


def output_path(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    """Check the suffix, and that the packages for drawing are installed."""
    if path is None:
        return None
    if path.suffix.lower() not in _SUFFIXES:
        raise click.BadParameter(f"{path}: the name must end in {', '.join(_SUFFIXES)}")
    require("plot", "matplotlib", "sklearn", "textalloc")
    return path


def text_options(command: F) -> F:
    """Add the options of texts to embed."""
    column = "Column of a .csv, .tsv or .jsonl.  [default: text, or the only column]"
    return decorate(
        command,
        click.option("--column", help=column),
        click.option("--prompt", help="Text to put before every text."),
    )


def drawing_options(command: F) -> F:
    """Add the options of all plots: file, colours, and source of vectors."""
    return decorate(
        command,
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            required=True,
            callback=output_path,
            help="File to write: .png, .svg or .html.",
        ),
        click.option("--dark", is_flag=True, help="Use light colours on a dark background."),
        source_options,
    )
