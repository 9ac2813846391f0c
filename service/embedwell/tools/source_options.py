"""Options to choose a running server instead of a model that is loaded here."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from embedwell.cli.options import ENGINE, MODEL, options

F = TypeVar("F", bound=Callable[..., Any])


def source_options(command: F) -> F:
    """Add the options of a VectorSource."""
    for option in (
        click.option("--api-key", envvar="EMBEDWELL_API_KEY", help="API key of the server."),
        click.option(
            "--server",
            metavar="URL",
            callback=_check_url,
            help="Use a running server instead of loading a model.",
        ),
        options(*MODEL, *ENGINE),
    ):
        command = option(command)
    return command


def _check_url(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url}: the address must begin with http:// or https://")
    return url
