"""Packages that only an extra installs."""

from importlib.util import find_spec

import click


def require(extra: str, *modules: str) -> None:
    """Check that modules of an extra are installed; raises ClickException."""
    for module in modules:
        if find_spec(module) is None:
            raise click.ClickException(
                f"{module} is not installed: pip install 'embedding-service[{extra}]'"
            )
