"""`embedwell serve`: its options by group, and its start."""

import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from embedwell.cli.options import (
    advice,
    model_folder,
    options,
    read_models,
    require_tracing,
    settings_of_tei,
    unknown_settings,
)
from embedwell.launch.logging import announce, configure_logging
from embedwell.launch.signals import install_signal_handlers, note_hangups
from embedwell.settings.model_settings import expand_adapters, model_settings
from embedwell.settings.settings import GROUPS, Settings
from embedwell_models.errors import ModelError

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
    "--uds-path": "--unix-socket",
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


@click.command(cls=ServeCommand)
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
    from embedwell.launch.reload import has_terminal

    if settings.models_file and not has_terminal():
        note_hangups()  # the server reloads the file as soon as it runs
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
        read_anew = partial(_read_anew, settings) if settings.models_file else None
        status = run(settings, served, read_anew=read_anew)
    except (ModelError, click.ClickException) as error:
        announce(f"Error: {error}", logging.ERROR, settings.log_format)
        status = 1
    sys.exit(status)


def prompts_hint(settings: Settings, folder: Path) -> str | None:
    """Return a hint if the authors of a model publish prompts that its files lack, else None."""
    if settings.prompts or "/" not in settings.model or Path(settings.model).exists():
        return None
    from embedwell.cli.known_models import missing_prompts  # of repositories

    return missing_prompts(settings.model, folder)


def _read_anew(settings: Settings) -> list[tuple[Settings, Path]]:
    """Read the models file of a running server.

    Raises ModelError, ValueError, and ClickException for a model that cannot be fetched.
    """
    from embedwell.app import describe

    models = model_settings(settings)
    served = [each for model in models for each in expand_adapters(model, model_folder(model))]
    for each in served:
        describe(*each)
    return served
