"""Options of `embedwell embed`: a folder of parts, servers, and a Ray cluster."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("parquet", "npy")


def folder_options(command: F) -> F:
    """Add the options that need an output folder."""
    for option in (
        click.option(
            "--resume", is_flag=True, help="Continue a run that was stopped, or begin it."
        ),
        click.option(
            "--shard",
            metavar="I/N",
            callback=_shard,
            help="Compute every N-th part from the I-th on, to share one folder among N machines.",
        ),
        click.option(
            "--part-rows",
            type=click.IntRange(1, 1 << 24),
            help="Maximum rows of a part; parts are kept in memory.  [default: 16384]",
        ),
        click.option(
            "--format", type=click.Choice(FORMATS), help="Format of the parts.  [default: parquet]"
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
    """Add the options of servers that embed instead of a local model."""
    for option in (
        click.option("--api-key", envvar="EMBEDWELL_API_KEY", help="API key of the servers."),
        click.option(
            "--server",
            "servers",
            metavar="URL",
            multiple=True,
            callback=_check_urls,
            help="Use a running server instead of loading a model; may be given several times.",
        ),
    ):
        command = option(command)
    return command


def ray_options(command: F) -> F:
    """Add the options of a Ray cluster whose actors embed."""
    for option in (
        click.option(
            "--actor-cpus",
            type=click.IntRange(1, 1024),
            metavar="NUMBER",
            help="Processors and threads of an actor.  [default: those of its node]",
        ),
        click.option(
            "--actors",
            type=click.IntRange(1, 10_000),
            metavar="NUMBER",
            help=(
                "Number of processes with the model.  [default: one for each GPU, or else for "
                "each node]"
            ),
        ),
        click.option(
            "--ray",
            is_flag=False,
            flag_value="auto",
            metavar="[ADDRESS]",
            callback=_check_ray,
            help=(
                "Embed on the machines of a Ray cluster: host:port; `auto` for the cluster of "
                "this machine or RAY_ADDRESS; `local` to start one here."
            ),
        ),
    ):
        command = option(command)
    return command


def check_workers(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for options of servers and actors that cannot be combined."""
    if flags["ray"] and flags["servers"]:
        raise click.UsageError("give either --ray or --server, not both")
    for name in ("actors", "actor_cpus"):
        if flags[name] and not flags["ray"]:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --ray")


def _check_ray(
    context: click.Context, parameter: click.Parameter, address: str | None
) -> str | None:
    if address and not re.fullmatch(r"auto|local|[^/\s]+:\d+", address):
        raise click.BadParameter(
            f"{address} is no address of a cluster: put --ray behind the sources, or write "
            "--ray=auto"
        )
    return address


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
            raise click.BadParameter(f"{url}: the address must begin with http:// or https://")
    return urls
