"""`embedwell pull`, `inspect`, `models` and `info`: models, and what they are."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from embedwell.cli.options import ENGINE, MODEL, load_embedder, model_folder, options, read
from embedwell.launch.logging import configure_logging
from embedwell_models.config.other_files import dangling_link, permission_denied
from embedwell_models.errors import ModelError


@click.command()
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
        try:
            shutil.copytree(folder, to)  # of a cache with links, the files
        except OSError as error:
            raise click.ClickException(f"{to} cannot be written: {error}") from None
    click.echo(to or folder)


@click.command()
@click.argument("named", metavar="[MODEL]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options(*MODEL, "pooling", "rerank_format", "adapter", "unicode_normalization")
def inspect(as_json: bool, **flags: Any) -> None:
    """Describe MODEL without loading its weights.

    The default is the model of the settings.
    """
    from embedwell.cli import inspection
    from embedwell_models.description.model_description import ModelDescription

    settings = read(flags)
    try:
        folder = ModelDescription.read(model_folder(settings), settings.options)
        properties = inspection.inspect(folder, settings.device, settings.isa, settings.dtype)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    lines = [json.dumps(properties, indent=2)] if as_json else inspection.lines(properties)
    click.echo("\n".join(lines))


@click.command()
@click.argument("text", default="")
@click.option("--measure", is_flag=True, help="Add estimates for this machine, in ten seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(text: str, measure: bool, as_json: bool) -> None:
    """List often used models whose names contain TEXT.

    Many other models can be served. Parameters are those of the published files, with parts that
    are not loaded, such as a pooler. The column float32 has the size of the weights in float32; in
    bfloat16 they take half. Prompts are those that the authors publish next to the files.

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


@click.command()
@click.argument("named", metavar="[MODEL]", required=False)
@options(*MODEL, *ENGINE)
def info(**flags: Any) -> None:
    """Load MODEL and print its properties as JSON."""
    embedder = load_embedder(read(flags))
    properties = {
        "dim": embedder.dim,
        "max_length": embedder.max_length,
        "pooling": embedder.recipe.pooling,
        "pooling_source": embedder.recipe.pooling_source,
        "normalize": embedder.recipe.normalize,
        "unicode_normalization": embedder.unicode_normalization,
        "prompts": embedder.recipe.prompts,
        "device": str(embedder.device),
        "dtype": embedder.dtype,
        "kernels": embedder.isa,
        "torch": embedder.why_torch,
        "trials": [asdict(trial) for trial in embedder.trials],
        "fingerprint": embedder.fingerprint,
    }
    click.echo(json.dumps(properties, indent=2))
