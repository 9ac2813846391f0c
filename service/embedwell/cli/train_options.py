"""Arguments and options of `embedwell train`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.cli.decorate import decorate

F = TypeVar("F", bound=Callable[..., Any])

_SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Of the random numbers.",
)


def number(name: str, default: float, help: str, **options: Any) -> Callable[[F], F]:
    """Create an option that is a positive number; an integer if its default is one."""
    kind: Any = click.FloatRange(min=0, min_open=True)
    if isinstance(default, int):
        kind = click.IntRange(min=1)
    return click.option(
        name, type=kind, default=default, show_default=True, metavar="NUMBER", help=help, **options
    )


output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The folder to write, which must not exist.",
)


def corpus_and_output(command: F) -> F:
    """Add the argument CORPUS, a file or -, and --output."""
    file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    return click.argument("corpus", type=file)(output_option(command))


def tokenizer_options(command: F) -> F:
    """Add the options of a tokenizer."""
    return decorate(
        command,
        click.option(
            "--algorithm",
            type=click.Choice(["bpe", "wordpiece", "unigram"]),
            default="bpe",
            show_default=True,
            help="Of the tokenizer. Of wordpiece and unigram, runs may differ in some tokens.",
        ),
        number("--vocabulary", 8000, "Tokens, of which a small corpus yields fewer."),
        click.option("--lower", is_flag=True, help="Put texts in lower case."),
    )


def word_options(command: F) -> F:
    """Add the options of word vectors."""
    return decorate(
        command,
        click.option(
            "--algorithm",
            type=click.Choice(["word2vec", "fasttext", "glove"]),
            default="word2vec",
            show_default=True,
            help="word2vec and fasttext are skip-grams; fasttext gives unknown words a vector.",
        ),
        number("--dimensions", 100, "Of a vector."),
        number("--window", 5, "Words on either side that a word is trained with."),
        number("--epochs", 20, "Passes over the corpus, or of glove over its pairs of words."),
        number("--min-count", 5, "Occurrences of a word that gets a vector."),
        number("--buckets", 100_000, "Of fasttext: rows for n-grams, which share them by a hash."),
        click.option(
            "--exact",
            is_flag=True,
            help="Take words as written, and not without punctuation around them and in lower "
            "case.",
        ),
        number("--threads", 1, "Of word2vec and fasttext; with several, a seed decides less."),
        _SEED,
    )


def sentence_options(command: F) -> F:
    """Add the options of a sentence encoder."""
    return decorate(
        command,
        number("--layers", 2, "Of the encoder."),
        number("--dimensions", 128, "Of a vector; multiples of 64 are the quickest to serve."),
        number("--heads", 4, "Of attention, a divisor of the dimensions."),
        tokenizer_options,
        number("--max-length", 128, "Tokens of a text, after which it is cut off."),
        number("--epochs", 1, "Passes over the corpus."),
        number("--batch-size", 64, "Rows of a batch, in which each is compared with all."),
        number("--accumulation", 1, "Batches whose gradients are added for one step."),
        number("--learning-rate", 5e-4, "The largest, after a tenth of all steps."),
        click.option(
            "--initialization",
            type=click.Choice(["normal", "scaled", "uniform", "xavier", "he"]),
            default="normal",
            show_default=True,
            help="Of matrices and tables: normal has a deviation of 0.02 as BERT, scaled of 1 / "
            "sqrt(inputs), uniform is from -0.1 to 0.1, xavier and he are by Glorot and by He.",
        ),
        _SEED,
    )


def head_options(command: F) -> F:
    """Add the options of layers over the states of tokens."""
    return decorate(
        command,
        number("--max-length", 128, "Tokens of a text that are read in training."),
        number("--epochs", 2, "Passes over the corpus."),
        number("--batch-size", 32, "Rows of a batch, in which each is compared with all."),
        number("--learning-rate", 1e-3, "The first; it falls to 0."),
        _SEED,
    )
