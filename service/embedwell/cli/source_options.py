"""Options that choose between a model that is loaded here and a running server."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from embedwell.cli.options import ENGINE, MODEL, options

F = TypeVar("F", bound=Callable[..., Any])


def source_options(command: F) -> F:
    """Options of a VectorSource."""
    for option in (
        click.option("--api-key", envvar="EMBEDWELL_API_KEY", help="Key of that server."),
        click.option(
            "--server",
            metavar="URL",
            callback=_check_url,
            help="Ask a running server instead of loading a model.",
        ),
        options(*MODEL, *ENGINE),
    ):
        command = option(command)
    return command


def _check_url(context: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.BadParameter(f"{url}: an address begins with http:// or https://")
    return url
