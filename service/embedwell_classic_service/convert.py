"""`embedwell convert`: older checkpoints and word vectors to safetensors and tokenizer.json."""

from pathlib import Path
from typing import Any

import click

from embedwell.cli.options import TEXT_FILE, options, read
from embedwell.launch.logging import configure_logging
from embedwell.settings.settings import Settings
from embedwell_models.errors import ModelError
from embedwell_models.hub import sources


@click.command()
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
    type=TEXT_FILE,
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


def _converted_file(source: Path, output: Path | None, choices: tuple[Any, ...]) -> Path:
    from embedwell_classic.convert.model import convert_file
    from embedwell_classic.convert.word_embeddings import Choices

    name = source.name.removesuffix(".gz").rpartition(".")[0] or source.name
    target = output or source.resolve().with_name(f"{name}-converted")
    configure_logging("info", "text")
    convert_file(source.resolve(), target, Choices(*choices))
    return target


def _converted(settings: Settings, output: Path | None) -> Path:
    from embedwell_classic.convert.model import convert_folder

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
        raise ModelError(
            f"no model {model!r}; give a folder, or organisation/name on a hub; "
            f"{sources.missing_folder(model)}"
        )
    configure_logging(settings.log_level, settings.log_format)
    convert_folder(source, target)
    return target
