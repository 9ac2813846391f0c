"""`embedwell train`: train a small model from a file of texts."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.cli.options import decorate, model_folder, options, output_option, read, require
from embedwell.launch.logging import configure_logging
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

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
    require("train", "transformers")
    from embedwell_classic.training.corpus import open_corpus
    from embedwell_classic.training.tokenizer import train_tokenizer, write_tokenizer
    from embedwell_models.checkpoint.new_folder import new_folder

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        write_tokenizer(train_tokenizer(texts, **choices), folder, max_length)
    click.echo(output)


@train.command()
@corpus_and_output
@click.option(
    "--algorithm",
    type=click.Choice(["word2vec", "fasttext", "glove"]),
    default="word2vec",
    show_default=True,
    help="word2vec and fasttext are skip-grams; fasttext gives unknown words a vector.",
)
@number("--dimensions", 100, "Dimensions of a vector.")
@number("--window", 5, "Number of words on either side that a word is trained with.")
@number("--epochs", 20, "Passes over the corpus (glove: over its pairs of words).")
@number("--min-count", 5, "Minimum occurrences of a word that gets a vector.")
@number("--buckets", 100_000, "Number of rows that n-grams share by a hash (fasttext).")
@click.option(
    "--exact",
    is_flag=True,
    help=(
        "Look up words only as they are written, not also in lower case and without "
        "surrounding punctuation."
    ),
)
@number(
    "--threads",
    1,
    "Threads (word2vec, fasttext). With several, results differ even with the same seed.",
)
@_SEED
def words(corpus: Path, output: Path, **choices: Any) -> None:
    """Train vectors of the words in CORPUS.

    CORPUS is a file in UTF-8 with a text on each line; - is standard input.
    """
    require("train", "gensim")
    from embedwell_classic.training.corpus import open_corpus
    from embedwell_classic.training.words import WordTraining, train_words
    from embedwell_models.checkpoint.new_folder import new_folder

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        count = train_words(texts, folder, WordTraining(**choices))
        log.info("%s words", count)
    click.echo(output)


@train.command()
@corpus_and_output
@number("--layers", 2, "Number of layers of the encoder.")
@number("--dimensions", 128, "Dimensions of a vector; multiples of 64 are the fastest to serve.")
@number("--heads", 4, "Number of attention heads, a divisor of the dimensions.")
@tokenizer_options
@number("--max-length", 128, "Maximum tokens of a text; the rest is cut off.")
@number("--epochs", 1, "Passes over the corpus.")
@number("--batch-size", 64, "Rows of a batch; each is compared with all others.")
@number("--accumulation", 1, "Number of batches whose gradients are added for one step.")
@number(
    "--learning-rate",
    5e-4,
    "Maximum learning rate, which is reached after a tenth of all steps.",
)
@click.option(
    "--initialization",
    type=click.Choice(["normal", "scaled", "uniform", "xavier", "he"]),
    default="normal",
    show_default=True,
    help=(
        "Initialisation of matrices and tables: normal (deviation 0.02, as in BERT), "
        "scaled (deviation 1 / sqrt(inputs)), uniform (-0.1 to 0.1), xavier (Glorot), he "
        "(He)."
    ),
)
@_SEED
def sentences(corpus: Path, output: Path, **choices: Any) -> None:
    """Train a sentence encoder from random weights.

    CORPUS is a .tsv or .jsonl of pairs with the same meaning (anchor, positive, and optionally a
    negative with another meaning), or a file in UTF-8 with a text on each line; - is standard
    input. Texts without pairs are paired with themselves; dropout makes the two vectors different.
    """
    require("train", "accelerate", "datasets", "sentence_transformers")
    from embedwell_classic.training.corpus import Pairs, open_corpus
    from embedwell_models.checkpoint.new_folder import new_folder

    with _reporting(), new_folder(output) as folder, open_corpus(corpus) as texts:
        from embedwell_classic.training.sentences import SentenceTraining, train_sentences

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
    require("train", "model2vec", "skeletoken", "transformers")
    from embedwell_models.checkpoint.new_folder import new_folder

    with _reporting(), new_folder(output) as folder:
        source = model_folder(read(flags))
        from embedwell_classic.training.distill import distill as distill_model

        distill_model(source, folder, dimensions)
    click.echo(output)


@train.command()
@click.argument("model")
@corpus_and_output
@number("--max-length", 128, "Maximum tokens of a text to read in training.")
@number("--epochs", 2, "Passes over the corpus.")
@number("--batch-size", 32, "Rows of a batch; each is compared with all others.")
@number("--learning-rate", 1e-3, "Initial learning rate; it decreases to 0.")
@_SEED
@options("revision", "cache", "dtype")
def heads(  # noqa: PLR0913 - click passes them by name
    *, model: str, corpus: Path, output: Path, revision: Any, cache: Any, dtype: Any, **choices: Any
) -> None:
    """Add sparse vectors and token vectors to an encoder MODEL.

    The model's dense vectors do not change. MODEL is a folder, or organisation/name on a hub.
    CORPUS is a .tsv or .jsonl of a query, a matching text (anchor, positive), and optionally one
    that does not match (negative).
    """
    from embedwell_classic.training.corpus import Pairs, open_corpus
    from embedwell_classic.training.heads import HeadTraining, train_heads
    from embedwell_models.checkpoint.new_folder import new_folder

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
