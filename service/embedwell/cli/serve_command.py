"""The command `serve`: its options in groups, and what replaces flags of other servers."""

from collections.abc import Mapping

import click

from embedwell.settings.settings import GROUPS

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

The tables of docs/migrate-tei.md and docs/client-differences.md list the same.
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
        for title, options in rows.items():
            with formatter.section(title):
                formatter.write_dl(options)
