"""`embedwell evaluate`: check vectors against a reference, and score them on tasks."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from embedwell.cli.options import TEXT_FILE, decorate, model_folder, read, require, require_torch
from embedwell_lab.options import output_path, source_options

if TYPE_CHECKING:  # they load numpy
    from embedwell_lab.evaluation.scoring import Result, Task

F = TypeVar("F", bound=Callable[..., Any])

PRECISIONS = ("float32", "bfloat16", "float16", "int8", "int4")
BASELINES = ("one-hot", "bag-of-words", "n-grams")
OUTPUT_TYPES = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_TASK_FILES = {
    "sts": "Similarity: rows of two texts and a score.",
    "word-similarity": (
        "Similarity of words: rows of two words and a score, as in WordSim-353 and SimLex-999."
    ),
    "analogies": "Analogies: lines of four words; a line ': name' begins a section.",
    "clustering": "Clustering: texts with labels.",
    "classification": "Classification: texts with labels.",
}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
prompt_option = click.option(
    "--prompt", help="Text to put before every text.  [default: the model's prompt]"
)


def comma_separated(item: "click.ParamType[Any]") -> Callable[..., list[Any]]:
    """Create a callback that splits a value at commas, and converts each part."""

    def split(context: click.Context, parameter: click.Parameter, value: str | None) -> list[Any]:
        if value is None:
            return []
        return [item.convert(part.strip(), parameter, context) for part in value.split(",")]

    return split


def task_files(command: F) -> F:
    """Add an option for the files of each task."""
    return decorate(
        command,
        *(
            click.option(f"--{name}", type=TEXT_FILE, multiple=True, help=text)
            for name, text in _TASK_FILES.items()
        ),
    )


def cost_options(command: F) -> F:
    """Add options of vectors to score (precisions, dimensions, output types), and of the report."""
    return decorate(
        command,
        prompt_option,
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


@click.group()
def evaluate() -> None:
    """Compare vectors with sentence-transformers, or score them.

    The model is loaded here, unless --server names a running server. The exit status is 1 if a
    number is less than wanted.

    The commands need the packages of the extra `evaluate`.
    """


@evaluate.command()
@click.option(
    "--texts", "file", type=TEXT_FILE, help="File of texts.  [default: 24 built-in sentences]"
)
@click.option("--column", help="Column of texts in a .csv, .tsv or .jsonl.")
@click.option("--limit", type=click.IntRange(1), help="Use only so many of the first texts.")
@prompt_option
@click.option(
    "--reference",
    metavar="MODEL",
    help="Folder or name of the model for sentence-transformers.  [default: the same model]",
)
@click.option(
    "--min-cosine",
    type=click.FloatRange(-1, 1),
    help=(
        "Minimum cosine.  [default: 0.99999 for float32, 0.999 for bfloat16 and float16, 0.995 "
        "for int8, 0.8 for int4]"
    ),
)
@json_option
@source_options
def parity(  # noqa: PLR0913 - options
    file: Path | None,
    *,
    column: str | None,
    limit: int | None,
    reference: str | None,
    min_cosine: float | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Compare vectors with sentence-transformers in float32."""
    if flags["server"] and reference is None:
        raise click.UsageError(
            "--server needs --reference, the folder or name of the model that the server serves"
        )
    require("evaluate", "sentence_transformers")
    require_torch()
    from embedwell_lab.evaluation.parity import compare, parity_lines, reference_vectors
    from embedwell_lab.evaluation.report import print_report
    from embedwell_lab.vector_source import vector_source
    from embedwell_models.precision.trials import LEAST_COSINES

    texts = _texts(file, column)[:limit]
    with vector_source(flags) as source:
        vectors, precision = source.embed(texts), source.precision
    folder = _reference_folder(flags, reference)
    result = compare(texts, vectors, reference_vectors(str(folder), texts, flags["prompt"]))
    least = LEAST_COSINES[precision] if min_cosine is None else min_cosine
    report = {"model": source.model, "precision": precision, **asdict(result), "min_cosine": least}
    print_report(report if as_json else parity_lines(result, source.model, precision, least))
    if problem := result.problem(least):
        click.echo(f"{folder}: {problem}", err=True)
        sys.exit(1)


@evaluate.command()
@task_files
@click.option("--column", help="Column of texts in a file with labels.")
@click.option(
    "--label",
    default="label",
    show_default=True,
    help="Column of labels in a file with labels.",
)
@click.option(
    "--retrieval", type=_FOLDER, multiple=True, help="Retrieval: folder in the format of BEIR."
)
@click.option(
    "--split", default="test", show_default=True, help="Name of the qrels file in that folder."
)
@click.option(
    "--baselines",
    callback=comma_separated(click.Choice(BASELINES)),
    metavar="LIST",
    help=f"Also score vectors without a model: {', '.join(BASELINES)}.",
)
@cost_options
@json_option
@source_options
def tasks(precisions: Sequence[str], baselines: Sequence[str], **flags: Any) -> None:
    """Score vectors on files of tasks.

    The tasks are similarity, analogies, clustering, classification and retrieval. Every option of a
    file may be given several times. With several precisions, dimensions or output types, each is
    scored.
    """
    require("evaluate", "scipy", "sklearn")
    from embedwell_lab.evaluation.report import report_results, take_report_options
    from embedwell_lab.evaluation.scoring import baseline, score

    report = take_report_options(flags)
    files = _read_tasks(flags)
    model, results = _score_each(partial(score, files), precisions, flags)
    compared = [result for name in baselines for result in score(files, baseline(name), name)]
    report_results(results, model, baselines=compared, **report)


@evaluate.command("mteb")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cost_options
@json_option
@source_options
def mteb_command(names: Sequence[str], precisions: Sequence[str], **flags: Any) -> None:
    """Score vectors on tasks or benchmarks of MTEB.

    STSBenchmark and NanoBEIR are two of them. Their data sets are fetched from Hugging Face. The
    command needs the package of the extra `mteb`.
    """
    require("mteb", "mteb")
    require_torch()
    from embedwell_lab.evaluation.mteb_tasks import find_tasks, score
    from embedwell_lab.evaluation.report import report_results, take_report_options

    report = take_report_options(flags)
    model, results = _score_each(partial(score, find_tasks(names)), precisions, flags)
    report_results(results, model, **report)


def _read_tasks(flags: dict[str, Any]) -> "list[Task]":
    """Remove the options of files from the flags, and return their tasks. Raises ClickException."""
    from embedwell_lab.evaluation.retrieval import read_retrieval
    from embedwell_lab.evaluation.tasks import (
        read_analogies,
        read_classification,
        read_clustering,
        read_similarity,
    )

    column, label, split = (flags.pop(name) for name in ("column", "label", "split"))
    tasks: list[Task] = [
        *map(read_similarity, [*flags.pop("sts"), *flags.pop("word_similarity")]),
        *map(read_analogies, flags.pop("analogies")),
        *(read_clustering(path, column, label) for path in flags.pop("clustering")),
        *(read_classification(path, column, label) for path in flags.pop("classification")),
        *(read_retrieval(path, split) for path in flags.pop("retrieval")),
    ]
    if not tasks:
        raise click.UsageError("name at least one file, with --sts, --retrieval, … (see --help)")
    return tasks


def _score_each(
    score: "Callable[..., Iterator[Result]]", precisions: Sequence[str], flags: dict[str, Any]
) -> "tuple[str, list[Result]]":
    """Score the model of the options in each precision, or the server. Raises ClickException."""
    from embedwell_lab.vector_source import vector_source

    variants = flags.pop("dimensions"), flags.pop("output_types")
    results: list[Result] = []
    if flags["server"] and precisions:
        raise click.UsageError("a server has only one precision; leave out --precisions")
    for precision in precisions or [flags["dtype"]]:
        with vector_source({**flags, "dtype": precision}) as source:
            results += score(source.embed, source.precision, *variants)
    return source.model, results


def _texts(file: Path | None, column: str | None) -> Sequence[str]:
    from embedwell_lab.texts import read_texts
    from embedwell_models.precision.references import SENTENCES

    return read_texts(file, column).texts if file else SENTENCES


def _reference_folder(flags: Mapping[str, Any], reference: str | None) -> Path:
    names = ("model", "revision", "cache") if reference is None else ("cache",)
    chosen = {name: flags[name] for name in names}
    return model_folder(read(chosen if reference is None else {**chosen, "model": reference}))
