"""Arguments and options of `embedwell train`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.tools.decorate import decorate

F = TypeVar("F", bound=Callable[..., Any])

_SEED = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Seed of the random numbers.",
)


def number(name: str, default: float, help: str, **options: Any) -> Callable[[F], F]:
    """Create an option for a positive number; an integer if its default is one."""
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
    help="Folder to write; it must not exist.",
)


def corpus_and_output(command: F) -> F:
    """Add the argument CORPUS, a file or -, and --output."""
    file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    return click.argument("corpus", type=file)(output_option(command))


def tokenizer_options(command: F) -> F:
    """Add the options that decide how a tokenizer is trained."""
    return decorate(
        command,
        click.option(
            "--algorithm",
            type=click.Choice(["bpe", "wordpiece", "unigram"]),
            default="bpe",
            show_default=True,
            help=(
                "Algorithm of the tokenizer. With wordpiece and unigram, runs may differ in some "
                "tokens."
            ),
        ),
        number("--vocabulary", 8000, "Number of tokens; a small corpus yields fewer."),
        click.option("--lower", is_flag=True, help="Convert texts to lower case."),
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
        number("--dimensions", 100, "Dimensions of a vector."),
        number("--window", 5, "Number of words on either side that a word is trained with."),
        number("--epochs", 20, "Passes over the corpus (glove: over its pairs of words)."),
        number("--min-count", 5, "Minimum occurrences of a word that gets a vector."),
        number("--buckets", 100_000, "Number of rows that n-grams share by a hash (fasttext)."),
        click.option(
            "--exact",
            is_flag=True,
            help=(
                "Look up words only as they are written, not also in lower case and without "
                "surrounding punctuation."
            ),
        ),
        number(
            "--threads",
            1,
            "Threads (word2vec, fasttext). With several, results differ even with the same seed.",
        ),
        _SEED,
    )


def sentence_options(command: F) -> F:
    """Add the options of a sentence encoder."""
    return decorate(
        command,
        number("--layers", 2, "Number of layers of the encoder."),
        number(
            "--dimensions", 128, "Dimensions of a vector; multiples of 64 are the fastest to serve."
        ),
        number("--heads", 4, "Number of attention heads, a divisor of the dimensions."),
        tokenizer_options,
        number("--max-length", 128, "Maximum tokens of a text; the rest is cut off."),
        number("--epochs", 1, "Passes over the corpus."),
        number("--batch-size", 64, "Rows of a batch; each is compared with all others."),
        number("--accumulation", 1, "Number of batches whose gradients are added for one step."),
        number(
            "--learning-rate",
            5e-4,
            "Maximum learning rate, which is reached after a tenth of all steps.",
        ),
        click.option(
            "--initialization",
            type=click.Choice(["normal", "scaled", "uniform", "xavier", "he"]),
            default="normal",
            show_default=True,
            help=(
                "Initialisation of matrices and tables: normal (deviation 0.02, as in BERT), "
                "scaled (deviation 1 / sqrt(inputs)), uniform (-0.1 to 0.1), xavier (Glorot), he "
                "(He)."
            ),
        ),
        _SEED,
    )


def head_options(command: F) -> F:
    """Add the options of layers over the states of tokens."""
    return decorate(
        command,
        number("--max-length", 128, "Maximum tokens of a text to read in training."),
        number("--epochs", 2, "Passes over the corpus."),
        number("--batch-size", 32, "Rows of a batch; each is compared with all others."),
        number("--learning-rate", 1e-3, "Initial learning rate; it decreases to 0."),
        _SEED,
    )
