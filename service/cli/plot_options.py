"""Options that the commands of `embedding-service plot` share."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from service.cli.options import ENGINE, MODEL, options

F = TypeVar("F", bound=Callable[..., Any])

TEXT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SUFFIXES = (".png", ".svg", ".html")


def _output_path(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    """Check the suffix, and that what draws is installed."""
    if path.suffix.lower() not in _SUFFIXES:
        raise click.BadParameter(f"{path}: the name must end in {', '.join(_SUFFIXES)}")
    require("matplotlib", "sklearn")
    return path


def require(*modules: str) -> None:
    """Check that modules of the extra are installed; raises ClickException."""
    for module in modules:
        if find_spec(module) is None:
            raise click.ClickException(
                f"{module} is not installed: pip install 'embedding-service[plot]'"
            )


def _check_url(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url}: an address begins with http:// or https://")
    return url


def text_options(command: F) -> F:
    """Options of texts that are embedded."""
    column = "Column of a .csv, .tsv or .jsonl; by default text, or the only one."
    for option in (
        click.option("--prompt", help="Put before every text."),
        click.option("--column", help=column),
    ):
        command = option(command)
    return command


def drawing_options(command: F) -> F:
    """Options that all pictures have: the file, its colours, and the source of vectors."""
    for option in (
        click.option("--api-key", envvar="EMBEDDING_API_KEY", help="Key of that server."),
        click.option(
            "--server",
            metavar="URL",
            callback=_check_url,
            help="Ask a running server instead of loading a model.",
        ),
        options(*MODEL, *ENGINE),
        click.option("--dark", is_flag=True, help="Light on dark."),
        click.option(
            "-o",
            "--output",
            type=click.Path(dir_okay=False, path_type=Path),
            required=True,
            callback=_output_path,
            help="File to write: .png, .svg or .html.",
        ),
    ):
        command = option(command)
    return command
