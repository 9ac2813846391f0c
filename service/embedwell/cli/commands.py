"""The `embedwell` command, and its small commands."""

import json
import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from embedwell import __version__
from embedwell.cli.compress import compress
from embedwell.cli.embed import embed
from embedwell.cli.env_file import unknown_settings
from embedwell.cli.evaluate import evaluate
from embedwell.cli.extras import require_torch, require_tracing
from embedwell.cli.options import (
    ENGINE,
    MODEL,
    load_embedder,
    model_folder,
    options,
    read,
    read_models,
)
from embedwell.cli.plot import plot
from embedwell.cli.train import train
from embedwell.process.logging import announce, configure_logging
from embedwell.process.signals import install_signal_handlers
from embedwell.settings.adapters import expand_adapters
from embedwell.settings.settings import Settings
from embedwell_models.errors import ModelError
from embedwell_models.hub import sources


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="embedwell")
def main() -> None:
    """Serve or compute vectors of sentences, tokens and positions.

    Every option can also be set as an environment variable, such as EMBEDWELL_PORT=9000 for --port,
    or as a line of a file named .env. A flag has precedence over a variable, and a variable over
    the file.
    """


@main.command()
@options()
def serve(**flags: Any) -> None:
    """Serve a model over HTTP, and fetch it first if necessary.

    To serve several models, repeat --model NAME=SOURCE, or name a file with --models-file.
    """
    settings, models = read_models(flags)
    configure_logging(settings.log_level, settings.log_format)
    if settings.tracing:
        require_tracing()
    require_torch()
    install_signal_handlers(0)  # a server that is told to stop has not failed
    from embedwell.server.bootstrap import run

    for name in unknown_settings(os.environ):
        message = f"warning: {name} is not a setting and has no effect; see embedwell serve --help"
        announce(message, logging.WARNING, settings.log_format)
    try:
        served = [each for model in models for each in expand_adapters(model, model_folder(model))]
        status = run(settings, served)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(status)


@main.command()
@options(*MODEL)
def pull(**flags: Any) -> None:
    """Fetch a model into the cache and verify every file of it."""
    click.echo(model_folder(read(flags)))


@main.command()
@click.argument("model")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help=(
        "Folder to write; it must not exist. Default: for a model on a hub, a folder in the "
        "cache, where serve finds it; for a folder, its name with -converted appended."
    ),
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=None,
    metavar="NUMBER",
    help="Word vectors: take only so many of the file's first words.  [default: all]",
)
@click.option(
    "--exact",
    is_flag=True,
    help=(
        "Word vectors: look up words only as they are written, not also in lower case and "
        "without surrounding punctuation."
    ),
)
@click.option(
    "--weights",
    type=click.Choice(["sif", "idf"]),
    default=None,
    help="Word vectors: weights of the words in the mean of a text.  [default: equal weights]",
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=None,
    help=(
        "Word vectors: file in UTF-8 with a text on each line, whose word counts determine the "
        "weights."
    ),
)
@options("revision", "cache")
def convert(
    output: Path | None,
    limit: int | None,
    exact: bool,
    weights: Any,
    corpus: Path | None,
    **flags: Any,
) -> None:
    """Convert an older MODEL to safetensors and tokenizer.json.

    MODEL is a folder, organisation/name on a hub, or a file. A file can have word vectors (Word2Vec
    .bin, .txt; GloVe .txt; fastText .vec, .bin; each also compressed as .gz), or an older encoder
    with its other files in the same folder (LASER 2 and 3 .pt; ELMo .hdf5; Doc2Vec of gensim
    .model). Prints the new folder.

    Files of torch.save (pytorch_model.bin, also in shards) are read as tensors only; code in them
    is not run. SentencePiece files and older vocabularies need packages: pip install transformers
    sentencepiece protobuf.
    """
    settings, source = read(flags), Path(str(flags["model"]))
    choices = (limit, exact, weights, corpus)
    try:
        if source.is_file():
            click.echo(_converted_file(source, output, choices))
        elif any(choices):
            raise click.UsageError(
                "--limit, --exact, --weights and --corpus need a file of word vectors"
            )
        else:
            click.echo(_converted(settings, output))
    except ModelError as error:
        raise click.ClickException(str(error)) from None


@main.command()
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@options("revision", "cache", "pooling", "rerank_format", "adapter")
def inspect(as_json: bool, **flags: Any) -> None:
    """Describe MODEL without loading its weights.

    The default is the model of the settings.
    """
    from embedwell.cli import inspection
    from embedwell_models.folder import Folder

    settings = read(flags)
    try:
        path, choices = model_folder(settings), (settings.rerank_format, settings.adapter)
        folder = Folder.read(path, settings.pooling, *choices)
        properties = inspection.inspect(folder)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    lines = [json.dumps(properties, indent=2)] if as_json else inspection.lines(properties)
    click.echo("\n".join(lines))


@main.command()
@options(*MODEL, *ENGINE)
def info(**flags: Any) -> None:
    """Load a model and print its properties as JSON."""
    embedder = load_embedder(read(flags))
    properties = {
        "dim": embedder.dim,
        "max_length": embedder.max_length,
        "pooling": embedder.sentence.pooling,
        "pooling_source": embedder.sentence.pooling_source,
        "normalize": embedder.sentence.normalize,
        "prompts": embedder.sentence.prompts,
        "device": str(embedder.device),
        "dtype": embedder.dtype,
        "kernels": embedder.isa,
        "trials": [asdict(trial) for trial in embedder.trials],
        "fingerprint": embedder.fingerprint,
    }
    click.echo(json.dumps(properties, indent=2))


def _converted_file(source: Path, output: Path | None, choices: tuple[Any, ...]) -> Path:
    from embedwell_models.convert.files import convert_file
    from embedwell_models.convert.words.folder import Choices

    name = source.name.removesuffix(".gz").rpartition(".")[0] or source.name
    target = output or source.resolve().with_name(f"{name}-converted")
    configure_logging("info", "text")
    convert_file(source.resolve(), target, Choices(*choices))
    return target


def _converted(settings: Settings, output: Path | None) -> Path:
    from embedwell_models.convert.folder import convert_folder

    model, folder = settings.model, Path(settings.model)
    if folder.is_dir():
        source = folder.resolve()
        target = output or source.with_name(f"{source.name}-converted")
    elif sources.is_hub_name(model):
        source = sources.fetch_with_pickles(model, settings.revision, settings.cache)
        target = output or sources.converted_folder(model, source, settings.cache)
        if output is None and target.is_dir():
            return target
    else:
        raise ModelError(f"no model {model!r}; give a folder, or organisation/name on a hub")
    configure_logging(settings.log_level, settings.log_format)
    convert_folder(source, target)
    return target


main.add_command(embed)
main.add_command(compress)
main.add_command(plot)
main.add_command(evaluate)
main.add_command(train)
