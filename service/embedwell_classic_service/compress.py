"""`embedwell compress`: make a table of vectors smaller, and compare the quality."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from embedwell.cli.options import (
    TEXT_FILE,
    load_embedder,
    model_folder,
    options,
    output_option,
    read,
    require,
)
from embedwell.settings.settings import Settings
from embedwell_models.errors import ModelError

_CHOICES = ("dimensions", "int8", "codes", "tiers", "hash_rows")


@click.command()
@click.argument("model")
@output_option
@click.option(
    "--corpus",
    type=TEXT_FILE,
    help="Keep only the words or tokens of these texts: file in UTF-8, a text on each line.",
)
@click.option(
    "--dimensions",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Keep only so many dimensions.",
)
@click.option("--int8", is_flag=True, help="Store each row as 8-bit integers with a scale.")
@click.option(
    "--codes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Store a row as so many bytes, each for an equal slice of it (product quantisation).",
)
@click.option(
    "--tiers",
    metavar="ROWS:DIMENSIONS,...",
    help="Use fewer dimensions for rarer words, such as 20000:300,50000:100,rest:25.",
)
@click.option(
    "--hash-rows",
    type=click.IntRange(min=2),
    metavar="NUMBER",
    help="Store a pool of so many rows; each row becomes a sum of two of them (hash embeddings).",
)
@click.option(
    "--sts",
    type=TEXT_FILE,
    help="Score both tables on pairs of texts, as `evaluate tasks` does. This needs scipy.",
)
@options("revision", "cache")
def compress(output: Path, corpus: Path | None, sts: Path | None, **flags: Any) -> None:
    """Write a smaller copy of MODEL, which is a table of vectors.

    MODEL has word vectors, or is one of StaticEmbedding or model2vec. Prints the bytes of both
    tables, and their scores on pairs of texts.
    """
    choices = {name: flags.pop(name) for name in _CHOICES}
    if not any((corpus, *choices.values())):
        raise click.UsageError("give at least one option that makes the table smaller (see --help)")
    if sts:
        require("evaluate", "scipy")
    settings = read(flags)
    source = model_folder(settings)
    try:
        _compress(source, output, corpus, choices)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    sizes = [_size(source), _size(output)]
    click.echo(f"{'bytes':10}{sizes[0]:>14,}{sizes[1]:>14,}{sizes[1] / sizes[0]:>10.1%}")
    if sts:
        scores = [
            _score(settings.model_copy(update={"model": str(m)}), sts) for m in (source, output)
        ]
        for name in scores[0]:
            before, after = (score[name] for score in scores)
            click.echo(f"{name:10}{before:>14.2f}{after:>14.2f}{after - before:>+10.2f}")
    click.echo(output)


def _compress(source: Path, output: Path, corpus: Path | None, choices: Mapping[str, Any]) -> None:
    from embedwell_classic.compress.forms import parse_bands
    from embedwell_classic.compress.model import Compression, compress_folder
    from embedwell_classic.convert.word_weighting import lines

    texts = lines(corpus) if corpus else None
    tiers = parse_bands(choices["tiers"]) if choices["tiers"] else None
    compress_folder(source, output, Compression(texts, **{**choices, "tiers": tiers}))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _score(settings: Settings, path: Path) -> Mapping[str, float]:
    from embedwell_lab.evaluation.tasks import read_similarity

    pairs, embedder = read_similarity(path), load_embedder(settings)
    return pairs.scores(embedder.embed(pairs.first), embedder.embed(pairs.second))
