"""Packages that only some commands need, and that are installed apart."""

from importlib.util import find_spec

import click

from embedwell_models.encoder.device import torch_is_installed
from embedwell_models.errors import TORCH_MISSING

_REQUIREMENTS = {  # of pip, where the name is not that of the module
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk.trace": "opentelemetry-sdk",
    "ray": "'ray[data,serve]'",
    "sentence_transformers": "sentence-transformers",
    "skeletoken": "'model2vec[distill]'",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
}


def require(*modules: str) -> None:
    """Check that modules are installed; raises ClickException, which says what pip has to install.

    The message names packages: a distribution of this project's name in an index may be another's.
    """
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        requirements = dict.fromkeys(_REQUIREMENTS.get(module, module) for module in missing)
        verb = "is" if len(missing) == 1 else "are"
        raise click.ClickException(
            f"{', '.join(missing)} {verb} not installed: pip install {' '.join(requirements)}"
        )


def require_torch() -> None:
    """Check that PyTorch is installed, without importing it; raises ClickException."""
    if not torch_is_installed():
        raise click.ClickException(TORCH_MISSING)


def require_tracing() -> None:
    """Check that the packages that send traces are installed; raises ClickException."""
    require("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # no parent package; a module that is None
        return False
