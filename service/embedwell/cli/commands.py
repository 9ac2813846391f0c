"""The `embedwell` command: its commands are imported when they are used."""

import shlex
from difflib import get_close_matches
from typing import Any

import click

from embedwell import __version__, doors
from embedwell_models.errors import TORCH_MISSING

_OF_OTHERS = {
    **dict.fromkeys(("run", "start", "up", "launch", "v2"), "serve"),
    **dict.fromkeys(("download", "fetch"), "pull"),
    **dict.fromkeys(("list", "ls"), "models"),
    "show": "inspect",
}
"""Command of another program -> the command here."""


class LazyGroup(click.Group):
    """A group of commands that are imported when they are used.

    A command that finds no torch ends with one line, which says how to install it.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return doors.command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            command: click.Command | None = doors.load_command(cmd_name)
        except doors.ExtensionError as error:
            return _failing_command(cmd_name, str(error))
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            text = (
                f"No such option {error.option_name!r}. Options follow a command: embedwell serve"
            )
            raise click.UsageError(f"{text} {error.option_name} …", ctx) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"{error.message}{_suggestion(args[0])}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise click.ClickException(TORCH_MISSING) from None


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="embedwell")
def main() -> None:
    """Serve an embedding model, or compute vectors with it.

    Options of the server and the model can also be environment variables, such as
    EMBEDWELL_PORT=9000 for --port, or lines of a file named .env. A flag has precedence over a
    variable, and a variable over the file.
    """


def _suggestion(unknown: str) -> str:
    """Suggest a similar command, or how to serve the model that was named."""
    names = {name: name for name in doors.command_names()} | _OF_OTHERS
    if similar := get_close_matches(unknown, names, n=1):
        return f" Did you mean {names[similar[0]]!r}?"
    return f" To serve a model: embedwell serve {shlex.quote(unknown)}"


def _failing_command(name: str, message: str) -> click.Command:
    # --help lists it, and all other commands work.
    def fail() -> None:
        raise click.ClickException(message)

    return click.Command(
        name,
        callback=fail,
        help=message,
        short_help="Cannot be imported.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
