"""`embedwell service`: a server that the system starts for this user."""

import sys
from pathlib import Path
from typing import Protocol

import click
from click.core import ParameterSource

from embedwell.cli.options import settings_in_file
from embedwell.cli.serve import serve
from embedwell_desktop.launchd_agent import LaunchdAgent
from embedwell_desktop.systemd_units import SystemdUnits

_CONTAINER = "docker run -d --restart unless-stopped -p 127.0.0.1:8080:8080 embedwell"


class ServiceManager(Protocol):
    """Installs a service of this user; all methods raise ClickException."""

    socket: Path

    def install(self, command: list[str], folder: Path) -> list[str]:
        """Install a command that runs in a folder; return hints for the user."""

    def status(self) -> bool:
        """Print the state of the service; return whether it is active."""

    def logs(self, follow: bool) -> None:
        """Print the log of the server."""

    def remove(self) -> None:
        """Stop the service and remove it."""


@click.group()
def service() -> None:
    """Let the system start a server for your programs.

    It needs no administrator's rights. The server starts with the first request, and ends after 15
    minutes without one.
    """


@service.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", metavar="[OPTION OF SERVE]...", nargs=-1, type=click.UNPROCESSED)
def install(options: tuple[str, ...]) -> None:
    """Install a service that runs `embedwell serve`.

    It has these options and the .env of the current folder, and listens on a Unix socket, which is
    printed. Run it again to change the options.
    """
    manager = _manager(" ".join([_CONTAINER, *(["serve", *options] if options else [])]))
    chosen = _chosen_options(options)
    for name in ("host", "port", "unix_socket"):
        if name in chosen:
            flag = name.replace("_", "-")
            raise click.UsageError(f"the service listens on {manager.socket}; leave out --{flag}")
    chosen |= settings_in_file()
    command = [sys.executable, "-P", "-m", "embedwell", "serve", *options]
    command += [] if "idle_exit" in chosen else ["--idle-exit", "15m"]
    # Otherwise the request that starts the server would be refused while the model loads.
    command += [] if {"keep", "devices"} & chosen else ["--keep", "on_demand"]
    hints = manager.install(command, Path.cwd())
    click.echo(manager.socket)
    for hint in hints:
        click.echo(hint, err=True)


@service.command()
@click.pass_context
def status(context: click.Context) -> None:
    """Show the state of the service.

    The exit status is 1 if it is not active.
    """
    context.exit(0 if _manager("docker ps --filter ancestor=embedwell").status() else 1)


@service.command()
@click.option("-f", "--follow", is_flag=True, help="Continue with the lines that come.")
def logs(follow: bool) -> None:
    """Show the log of the server."""
    _manager("docker logs $(docker ps -q --filter ancestor=embedwell)").logs(follow)


@service.command()
def remove() -> None:
    """Stop the server and remove the service."""
    _manager("docker rm -f $(docker ps -q --filter ancestor=embedwell)").remove()


def _chosen_options(options: tuple[str, ...]) -> set[str]:
    """Return the names of the options of serve that are set; raises UsageError."""
    context = serve.make_context("embedwell service install", [*options])
    return {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }


def _manager(container: str, platform: str = sys.platform) -> ServiceManager:
    """Return the manager of this system; raises ClickException.

    container: a command that does the same with Docker, for a system without a manager.
    """
    if platform == "linux":
        return SystemdUnits()
    if platform == "darwin":
        return LaunchdAgent()
    raise click.ClickException(
        f"embedwell knows systemd and launchd, which this system lacks; use Docker: {container}"
    )
