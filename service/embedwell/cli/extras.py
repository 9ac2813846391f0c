"""Packages that only an extra installs."""

from importlib.util import find_spec

import click


def require(extra: str, *modules: str) -> None:
    """Check that modules of an extra are installed; raises ClickException."""
    for module in modules:
        if not _is_installed(module):
            raise click.ClickException(
                f"{module} is not installed: pip install 'embedwell[{extra}]'"
            )


def require_tracing() -> None:
    """Check that the packages that send traces are installed; raises ClickException."""
    require("otel", "opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package that would contain it is missing
        return False
