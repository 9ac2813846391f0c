"""Options of `embedwell evaluate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.tools.decorate import decorate
from embedwell.tools.plot_options import TEXT_FILE, output_path

F = TypeVar("F", bound=Callable[..., Any])

PRECISIONS = ("float32", "bfloat16", "float16", "int8")
BASELINES = ("one-hot", "bag-of-words", "n-grams")
OUTPUT_TYPES = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def comma_separated(item: "click.ParamType[Any]") -> Callable[..., list[Any]]:
    """Create a callback that splits a value at commas, and converts each part."""

    def split(context: click.Context, parameter: click.Parameter, value: str | None) -> list[Any]:
        if value is None:
            return []
        return [item.convert(part.strip(), parameter, context) for part in value.split(",")]

    return split


def parity_options(command: F) -> F:
    """Add the options of `evaluate parity`."""
    return decorate(
        command,
        click.option(
            "--texts",
            "file",
            type=TEXT_FILE,
            help="File of texts.  [default: 24 built-in sentences]",
        ),
        click.option("--column", help="Column of texts in a .csv, .tsv or .jsonl."),
        click.option(
            "--limit", type=click.IntRange(1), help="Use only so many of the first texts."
        ),
        click.option(
            "--prompt", help="Text to put before every text.  [default: the model's prompt]"
        ),
        click.option(
            "--reference",
            metavar="MODEL",
            help=(
                "Folder or name of the model for sentence-transformers.  [default: the same model]"
            ),
        ),
        click.option(
            "--min-cosine",
            type=click.FloatRange(-1, 1),
            help=(
                "Minimum cosine.  [default: 0.99999 for float32, 0.999 for bfloat16 and float16, "
                "0.995 for int8]"
            ),
        ),
    )


def task_options(command: F) -> F:
    """Add the options of `evaluate tasks`."""
    files = {
        "sts": "Similarity: rows of two texts and a score.",
        "word-similarity": (
            "Similarity of words: rows of two words and a score, as in WordSim-353 and SimLex-999."
        ),
        "analogies": "Analogies: lines of four words; a line ': name' begins a section.",
        "clustering": "Clustering: texts with labels.",
        "classification": "Classification: texts with labels.",
    }
    return decorate(
        command,
        *(
            click.option(f"--{name}", type=TEXT_FILE, multiple=True, help=text)
            for name, text in files.items()
        ),
        click.option("--column", help="Column of texts in a file with labels."),
        click.option(
            "--label",
            default="label",
            show_default=True,
            help="Column of labels in a file with labels.",
        ),
        click.option(
            "--retrieval",
            type=_FOLDER,
            multiple=True,
            help="Retrieval: folder in the format of BEIR.",
        ),
        click.option(
            "--split",
            default="test",
            show_default=True,
            help="Name of the qrels file in that folder.",
        ),
        click.option(
            "--baselines",
            callback=comma_separated(click.Choice(BASELINES)),
            metavar="LIST",
            help=f"Also score vectors without a model: {', '.join(BASELINES)}.",
        ),
        cost_options,
    )


def cost_options(command: F) -> F:
    """Add options of vectors to score (precisions, dimensions, output types), and of the report."""
    return decorate(
        command,
        click.option(
            "--prompt", help="Text to put before every text.  [default: the model's prompt]"
        ),
        click.option(
            "--precisions",
            callback=comma_separated(click.Choice(PRECISIONS)),
            metavar="LIST",
            help="Comma-separated, such as float32,int8.  [default: that of --dtype]",
        ),
        click.option(
            "--dimensions",
            callback=comma_separated(click.IntRange(1)),
            metavar="LIST",
            help="Numbers of leading dimensions, such as 64,128,384.  [default: all]",
        ),
        click.option(
            "--output-types",
            callback=comma_separated(click.Choice(OUTPUT_TYPES)),
            metavar="LIST",
            help=f"Comma-separated, of {', '.join(OUTPUT_TYPES)}.  [default: float32]",
        ),
        click.option("--min-score", type=float, help="Minimum main score of a task, out of 100."),
        click.option(
            "--plot",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=output_path,
            help="Write a chart of scores over bytes of a vector: .png, .svg or .html.",
        ),
    )
