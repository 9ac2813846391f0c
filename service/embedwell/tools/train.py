"""`embedwell train`: train a small model from a file of texts."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from embedwell.cli.extras import require
from embedwell.cli.options import model_folder, options, read
from embedwell.launch.logging import configure_logging
from embedwell.tools.train_options import (
    corpus_and_output,
    head_options,
    number,
    output_option,
    sentence_options,
    tokenizer_options,
    word_options,
)
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)


@click.group()
def train() -> None:
    """Train small models from a file of texts, for `serve`.

    All commands except `heads` need further packages, and name the missing ones.
    """


@train.command()
@corpus_and_output
@tokenizer_options
@click.option(
    "--max-length",
    type=click.IntRange(min=4),
    default=512,
    show_default=True,
    metavar="NUMBER",
    help="Maximum tokens of a text; the rest is cut off.",
)
def tokenizer(corpus: Path, output: Path, max_length: int, **choices: Any) -> None:
    """Write a tokenizer.json from the texts in CORPUS.

    CORPUS is a file in UTF-8 with a text on each line; - is standard input.
    """
    require("transformers")
    from embedwell_models.checkpoint.new_folder import new_folder
    from embedwell_models.training.corpus import open_corpus
    from embedwell_models.training.tokenizer import train_tokenizer, write_tokenizer

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        write_tokenizer(train_tokenizer(texts, **choices), folder, max_length)
    click.echo(output)


@train.command()
@corpus_and_output
@word_options
def words(corpus: Path, output: Path, **choices: Any) -> None:
    """Train vectors of the words in CORPUS.

    CORPUS is a file in UTF-8 with a text on each line; - is standard input.
    """
    require("gensim")
    from embedwell_models.checkpoint.new_folder import new_folder
    from embedwell_models.training.corpus import open_corpus
    from embedwell_models.training.words import WordTraining, train_words

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        count = train_words(texts, folder, WordTraining(**choices))
        log.info("%s words", count)
    click.echo(output)


@train.command()
@corpus_and_output
@sentence_options
def sentences(corpus: Path, output: Path, **choices: Any) -> None:
    """Train a sentence encoder from random weights.

    CORPUS is a .tsv or .jsonl of pairs with the same meaning (anchor, positive, and optionally a
    negative with another meaning), or a file in UTF-8 with a text on each line; - is standard
    input. Texts without pairs are paired with themselves; dropout makes the two vectors different.
    """
    require("accelerate", "datasets", "sentence_transformers")
    from embedwell_models.checkpoint.new_folder import new_folder
    from embedwell_models.training.corpus import open_corpus
    from embedwell_models.training.pairs import Pairs

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        from embedwell_models.training.sentences import SentenceTraining, train_sentences

        train_sentences(Pairs(texts), folder, SentenceTraining(**choices))
    click.echo(output)


@train.command()
@click.argument("model")
@output_option
@number("--dimensions", 256, "Dimensions of a vector, at most the model's.")
@options("revision", "cache")
def distill(output: Path, dimensions: int, **flags: Any) -> None:
    """Write a table of MODEL's token vectors, as in model2vec.

    MODEL is a folder, or organisation/name on a hub.
    """
    require("model2vec", "skeletoken", "transformers")
    from embedwell_models.checkpoint.new_folder import new_folder

    with _reporting(), new_folder(output) as folder:
        source = model_folder(read(flags))
        from embedwell_models.training.distill import distill as distill_model

        distill_model(source, folder, dimensions)
    click.echo(output)


@train.command()
@click.argument("model")
@corpus_and_output
@head_options
@options("revision", "cache", "dtype")
def heads(  # noqa: PLR0913 - click passes them by name
    *, model: str, corpus: Path, output: Path, revision: Any, cache: Any, dtype: Any, **choices: Any
) -> None:
    """Add sparse vectors and token vectors to an encoder MODEL.

    The model's dense vectors do not change. MODEL is a folder, or organisation/name on a hub.
    CORPUS is a .tsv or .jsonl of a query, a matching text (anchor, positive), and optionally one
    that does not match (negative).
    """
    from embedwell_models.checkpoint.new_folder import new_folder
    from embedwell_models.training.corpus import open_corpus
    from embedwell_models.training.heads import HeadTraining, train_heads
    from embedwell_models.training.pairs import Pairs

    settings = read({"model": model, "revision": revision, "cache": cache, "dtype": dtype})
    training = HeadTraining(**choices, dtype=settings.dtype)
    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        train_heads(model_folder(settings), Pairs(texts), folder, training)
    click.echo(output)


@contextmanager
def _reporting() -> Iterator[None]:
    """Log progress, and convert ModelError and OSError to ClickException."""
    configure_logging("info", "text")
    logging.getLogger("gensim.utils").setLevel("WARNING")  # it logs the other loggers' messages
    try:
        yield
    except (ModelError, OSError) as error:
        raise click.ClickException(str(error)) from None
