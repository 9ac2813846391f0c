"""Options of `embedding-service embed` for a folder of parts."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("parquet", "npy")


def folder_options(command: F) -> F:
    """Options that are for a folder only."""
    for option in (
        click.option(
            "--resume", is_flag=True, help="Go on with a run that was stopped, or begin it."
        ),
        click.option(
            "--shard",
            metavar="I/N",
            callback=_shard,
            help="Take every N-th part from the I-th on, for N machines and one folder.",
        ),
        click.option(
            "--part-rows",
            type=click.IntRange(1, 1 << 24),
            help="Most rows of a part, which is in memory.  [default: 16384]",
        ),
        click.option(
            "--format", type=click.Choice(FORMATS), help="Of the parts.  [default: parquet]"
        ),
        click.option(
            "--keep",
            multiple=True,
            metavar="COLUMN",
            help="Column to write beside the vectors; may be given several times.  [default: all]",
        ),
        click.option("--id", "id_column", metavar="COLUMN", help="Column that identifies a row."),
        click.option("--column", metavar="COLUMN", help="Column of the texts.  [default: text]"),
    ):
        command = option(command)
    return command


def server_options(command: F) -> F:
    """Options of the servers that embed instead of a model that is loaded here."""
    for option in (
        click.option("--api-key", envvar="EMBEDDING_API_KEY", help="Key of the servers."),
        click.option(
            "--server",
            "servers",
            metavar="URL",
            multiple=True,
            callback=_check_urls,
            help="Ask a running server instead of loading a model; may be given several times.",
        ),
    ):
        command = option(command)
    return command


def _shard(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", value)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{value}: write I/N, such as 1/4, with I from 1 to N")
    return int(match[1]), int(match[2])


def _check_urls(
    context: click.Context, parameter: click.Parameter, urls: Sequence[str]
) -> Sequence[str]:
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise click.BadParameter(f"{url}: an address begins with http:// or https://")
    return urls
