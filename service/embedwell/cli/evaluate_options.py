"""Options of `embedwell evaluate`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from embedwell.cli.decorate import decorate
from embedwell.cli.plot_options import TEXT_FILE, output_path

F = TypeVar("F", bound=Callable[..., Any])

PRECISIONS = ("float32", "bfloat16", "float16", "int8")
BASELINES = ("one-hot", "bag-of-words", "n-grams")
OUTPUT_TYPES = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def comma_separated(item: "click.ParamType[Any]") -> Callable[..., list[Any]]:
    """A callback that splits a value at commas, and converts each part."""

    def split(context: click.Context, parameter: click.Parameter, value: str | None) -> list[Any]:
        if value is None:
            return []
        return [item.convert(part.strip(), parameter, context) for part in value.split(",")]

    return split


def parity_options(command: F) -> F:
    """Options of `evaluate parity`."""
    return decorate(
        command,
        click.option(
            "--texts", "file", type=TEXT_FILE, help="File of texts; by default 24 sentences."
        ),
        click.option("--column", help="Column of a .csv, .tsv or .jsonl."),
        click.option("--limit", type=click.IntRange(1), help="Only the first texts."),
        click.option("--prompt", help="Put before every text; by default the model's."),
        click.option(
            "--reference",
            metavar="MODEL",
            help="Folder or name of the model for sentence-transformers; by default the same.",
        ),
        click.option(
            "--min-cosine",
            type=click.FloatRange(-1, 1),
            help="Least cosine that is right; by default by precision: 0.99999 for float32, 0.999 "
            "for bfloat16 and float16, 0.995 for int8.",
        ),
    )


def task_options(command: F) -> F:
    """Options of `evaluate tasks`."""
    files = {
        "sts": "Two texts and a score of their similarity in each row.",
        "word-similarity": "Two words and a score, as WordSim-353 and SimLex-999 have them.",
        "analogies": "Four words on each line, sections as ': name'.",
        "clustering": "Texts with labels.",
        "classification": "Texts with labels.",
    }
    return decorate(
        command,
        *(
            click.option(f"--{name}", type=TEXT_FILE, multiple=True, help=text)
            for name, text in files.items()
        ),
        click.option("--column", help="Column of labelled texts."),
        click.option("--label", default="label", show_default=True, help="Column of labels."),
        click.option(
            "--retrieval", type=_FOLDER, multiple=True, help="Folder in the format of BEIR."
        ),
        click.option(
            "--split", default="test", show_default=True, help="File of qrels in that folder."
        ),
        click.option(
            "--baselines",
            callback=comma_separated(click.Choice(BASELINES)),
            metavar="LIST",
            help=f"Vectors without a model, scored too: {', '.join(BASELINES)}.",
        ),
        cost_options,
    )


def cost_options(command: F) -> F:
    """Options of what is scored: precisions, dimensions and output types; and of the report."""
    return decorate(
        command,
        click.option("--prompt", help="Put before every text; by default the model's."),
        click.option(
            "--precisions",
            callback=comma_separated(click.Choice(PRECISIONS)),
            metavar="LIST",
            help="Such as float32,int8; by default the one of --dtype.",
        ),
        click.option(
            "--dimensions",
            callback=comma_separated(click.IntRange(1)),
            metavar="LIST",
            help="The first of a vector, such as 64,128,384; by default all.",
        ),
        click.option(
            "--output-types",
            callback=comma_separated(click.Choice(OUTPUT_TYPES)),
            metavar="LIST",
            help=f"Of {', '.join(OUTPUT_TYPES)}; by default float32.",
        ),
        click.option("--min-score", type=float, help="Least main score of a task, out of 100."),
        click.option(
            "--plot",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=output_path,
            help="Draw scores over bytes of a vector: .png, .svg or .html.",
        ),
    )
