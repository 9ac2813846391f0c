"""The `embedwell` command: serving and looking at models; the other commands by their names."""

import json
import logging
import os
import pkgutil
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from embedwell import __version__
from embedwell.cli.env_file import advice, settings_of_tei, unknown_settings
from embedwell.cli.options import (
    ENGINE,
    MODEL,
    load_embedder,
    model_folder,
    options,
    read,
    read_models,
    require_tracing,
)
from embedwell.launch.logging import announce, configure_logging
from embedwell.launch.signals import install_signal_handlers
from embedwell.settings.model_settings import expand_adapters
from embedwell.settings.settings import GROUPS
from embedwell_models.config.other_files import dangling_link, permission_denied
from embedwell_models.errors import TORCH_MISSING, ModelError

_NOTHING = "nothing takes its place; leave it out"
FLAGS_OF_OTHERS: Mapping[str, str] = {
    # TEI
    "--model-id": "--model",
    "--device-id": "--device cuda:N",
    "--huggingface-hub-cache": "--cache",
    "--hf-token": "HF_TOKEN in the environment",
    "--hf-api-token": "HF_TOKEN in the environment",
    "--served-model-name": "--served-name",
    "--max-client-batch-size": "--max-texts and --max-tokens",
    "--max-concurrent-requests": "--max-wait",
    "--payload-limit": "--max-body-bytes",
    "--hostname": "--host",
    "--default-prompt": """--prompts '{"default": "…"}'""",
    "--default-prompt-name": "default_prompt_name in config_sentence_transformers.json",
    "--dense-path": "modules.json of the model",
    "--tokenization-workers": "--workers",
    "--cors-allow-origin": "--cors-origins",
    "--max-batch-requests": _NOTHING,
    "--uds-path": _NOTHING,
    "--disable-spans": _NOTHING,
    "--json-output": "--log-format json",
    "--otlp-endpoint": "--tracing true, with OTEL_EXPORTER_OTLP_ENDPOINT in the environment",
    "--otlp-service-name": "OTEL_SERVICE_NAME in the environment",
    "--prometheus-port": "/metrics on the server's own port; leave it out",
    # Infinity and vLLM
    "--pooling-method": "--pooling",
    "--pooler-config": "--pooling",
    "--permissive-cors": "--cors-origins '*'",
    "--allowed-origins": "--cors-origins",
    "--runner": _NOTHING,
}
"""Replacement of each flag of another server.

The tables of docs/migrate-*.md list the same.
"""


class ServeCommand(click.Command):
    """A command whose options are settings, shown by group."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; an error says what takes the place of another server's flag."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (here := FLAGS_OF_OTHERS.get(error.option_name)) is None:
                raise
            text = f"No such option {error.option_name!r}. Here: {here}"
            raise click.UsageError(text, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group under its title."""
        title, rows = "", dict[str, list[tuple[str, str]]]()
        for option in self.get_params(ctx):
            title = GROUPS.get(option.name or "", title) if option in self.params else "Help"
            if isinstance(option, click.Option) and (row := option.get_help_record(ctx)):
                rows.setdefault(title, []).append(row)
        for title, records in rows.items():
            with formatter.section(title):
                formatter.write_dl(records)


# The server imports nothing of bulk and tools.
OTHER_COMMANDS = {
    "compress": "embedwell_classic.commands.compress:compress",
    "convert": "embedwell_classic.commands.convert:convert",
    "embed": "embedwell.bulk.embed:embed",
    "evaluate": "embedwell.tools.evaluate:evaluate",
    "plot": "embedwell.tools.plot:plot",
    "train": "embedwell_classic.commands.train:train",
}


class LazyGroup(click.Group):
    """A group of commands that imports those of OTHER_COMMANDS when they are used.

    A command that finds no torch ends with one line, which says how to install it.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *OTHER_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in OTHER_COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = pkgutil.resolve_name(OTHER_COMMANDS[cmd_name])
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            text = (
                f"No such option {error.option_name!r}. Options follow a command: embedwell serve"
            )
            raise click.UsageError(f"{text} {error.option_name} …", ctx) from None

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


@main.command(cls=ServeCommand)
@click.argument("named", metavar="[MODEL]...", nargs=-1)
@options()
def serve(**flags: Any) -> None:
    """Serve MODEL over HTTP, and fetch it first if necessary.

    To serve several models, give each as NAME=SOURCE, or name a file with --models-file.

    Each option can also be an environment variable or a line of a file named .env, such as
    EMBEDWELL_PORT=9000 for --port.
    """
    settings, models = read_models(flags)
    configure_logging(settings.log_level, settings.log_format)
    if settings.tracing or settings.otlp_metrics:
        require_tracing()
    install_signal_handlers(0)  # a server that is told to stop has not failed
    from embedwell.cli.known_models import prompts_hint
    from embedwell.launch.bootstrap import run

    for name in unknown_settings(os.environ):
        message = f"warning: {name} is not a setting and has no effect; {advice(name)}"
        announce(message, logging.WARNING, settings.log_format)
    for name, ours in settings_of_tei(os.environ, settings):
        message = f"warning: {name} has no effect; embedwell reads {ours}"
        announce(message, logging.WARNING, settings.log_format)
    try:
        served = [each for model in models for each in expand_adapters(model, model_folder(model))]
        for model, folder in served:
            if hint := prompts_hint(model, folder):
                announce(hint, logging.WARNING, settings.log_format)
        status = run(settings, served)
    except (ModelError, click.ClickException) as error:
        announce(f"Error: {error}", logging.ERROR, settings.log_format)
        status = 1
    sys.exit(status)


@main.command()
@click.argument("named", metavar="[MODEL]", required=False)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Also copy the files into this new folder, for a machine without network.",
)
@options(*MODEL)
def pull(to: Path | None, **flags: Any) -> None:
    """Fetch MODEL into the cache and verify every file of it."""
    settings = read(flags)
    configure_logging(settings.log_level, settings.log_format)
    folder = model_folder(settings)
    for path in folder.rglob("*"):
        if not os.access(path, os.R_OK):
            problem = dangling_link(path)
            raise click.ClickException(f"{path} {problem}" if problem else permission_denied(path))
    if to is not None:
        if to.exists():
            raise click.ClickException(f"{to} exists; name a folder that does not")
        shutil.copytree(folder, to)  # of a cache with links, the files
    click.echo(to or folder)


@main.command()
@click.argument("named", metavar="[MODEL]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options(*MODEL, "pooling", "rerank_format", "adapter", "unicode_normalization")
def inspect(as_json: bool, **flags: Any) -> None:
    """Describe MODEL without loading its weights.

    The default is the model of the settings.
    """
    from embedwell.cli import inspection
    from embedwell_models.model_description import ModelDescription

    settings = read(flags)
    try:
        path, choices = model_folder(settings), (settings.rerank_format, settings.adapter)
        folder = ModelDescription.read(path, settings.pooling, *choices)
        folder = folder.with_unicode_normalization(settings.unicode_normalization)
        properties = inspection.inspect(folder, settings.device, settings.isa, settings.dtype)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    lines = [json.dumps(properties, indent=2)] if as_json else inspection.lines(properties)
    click.echo("\n".join(lines))


@main.command()
@click.argument("text", default="")
@click.option("--measure", is_flag=True, help="Add estimates for this machine, in ten seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(text: str, measure: bool, as_json: bool) -> None:
    """List often used models whose names contain TEXT.

    Many other models can be served. Parameters are those of the published files, with parts that
    are not loaded, such as a pooler. The column float32 has the size of the weights in float32; in
    bfloat16 they take half. Prompts are those that the authors publish beside the files.

    With --measure, columns that begin with ~ are estimates for this machine, from the speed of
    random weights: memory of a server, passages of 128 tokens per second, and time of a query of 8
    tokens. They leave out tokenization, HTTP and other work of the processors.
    """
    from embedwell.cli import known_models

    if not known_models.named(text):
        raise click.ClickException(
            f"no listed model has {text!r} in its name; `embedwell inspect MODEL` says whether "
            "another model can be served"
        )
    speed = None
    if measure:
        from embedwell.cli.machine_speed import MachineSpeed

        try:
            speed = MachineSpeed.measure()
        except ModelError as error:
            raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(known_models.as_json(text, speed))
    else:
        click.echo("\n".join(known_models.table(text, speed)))


@main.command()
@click.argument("named", metavar="[MODEL]", required=False)
@options(*MODEL, *ENGINE)
def info(**flags: Any) -> None:
    """Load MODEL and print its properties as JSON."""
    embedder = load_embedder(read(flags))
    properties = {
        "dim": embedder.dim,
        "max_length": embedder.max_length,
        "pooling": embedder.sentence.pooling,
        "pooling_source": embedder.sentence.pooling_source,
        "normalize": embedder.sentence.normalize,
        "unicode_normalization": embedder.unicode_normalization,
        "prompts": embedder.sentence.prompts,
        "device": str(embedder.device),
        "dtype": embedder.dtype,
        "kernels": embedder.isa,
        "torch": embedder.why_torch,
        "trials": [asdict(trial) for trial in embedder.trials],
        "fingerprint": embedder.fingerprint,
    }
    click.echo(json.dumps(properties, indent=2))
