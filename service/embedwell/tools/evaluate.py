"""`embedwell evaluate`: check vectors against a reference, and score them on tasks."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embedwell.cli.extras import require, require_torch
from embedwell.cli.options import model_folder, read
from embedwell.tools.evaluate_options import cost_options, json_option, parity_options, task_options
from embedwell.tools.evaluate_report import print_report, report_results, take_report_options
from embedwell.tools.source_options import source_options

if TYPE_CHECKING:  # they load numpy
    from embedwell.tools.evaluation.variants import Result
    from embedwell.tools.vector_source import VectorSource


@click.group()
def evaluate() -> None:
    """Compare vectors with those of sentence-transformers, or score them on files.

    The model is loaded here, unless --server names a running server. The exit status is 1 if a
    number is less than wanted.

    The commands need some packages: pip install sentence-transformers scikit-learn scipy.
    """


@evaluate.command()
@parity_options
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
    """Compare vectors with those of sentence-transformers in float32 on the CPU."""
    if flags["server"] and reference is None:
        raise click.UsageError(
            "--server needs --reference, the folder or name of the model that the server serves"
        )
    require("sentence_transformers")
    require_torch()
    from embedwell.tools.evaluation.parity import compare, reference_vectors
    from embedwell.tools.evaluation.report import parity_lines
    from embedwell.tools.vector_source import vector_source
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
@task_options
@json_option
@source_options
def tasks(precisions: Sequence[str], baselines: Sequence[str], **flags: Any) -> None:
    """Score vectors on files of tasks.

    The tasks are similarity, analogies, clustering, classification and retrieval. Every option of a
    file may be given several times. With several precisions, dimensions or output types, each is
    scored.
    """
    require("scipy", "sklearn")
    from embedwell.tools.evaluation.baselines import Baseline
    from embedwell.tools.evaluation.scoring import score
    from embedwell.tools.evaluation.task_files import read_tasks

    report = take_report_options(flags)
    files = read_tasks(flags)
    dimensions, output_types = flags.pop("dimensions"), flags.pop("output_types")
    results: list[Result] = []
    for source in _sources(precisions, flags):
        results += score(files, source.embed, source.precision, dimensions, output_types)
    compared = [result for name in baselines for result in score(files, Baseline(name).embed, name)]
    report_results(results, source.model, baselines=compared, **report)


@evaluate.command("mteb")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@cost_options
@json_option
@source_options
def mteb_command(names: Sequence[str], precisions: Sequence[str], **flags: Any) -> None:
    """Score vectors on tasks or benchmarks of MTEB, such as STSBenchmark or NanoBEIR.

    Their data sets are fetched from Hugging Face. The command needs a package: pip install mteb.
    """
    require("mteb")
    require_torch()
    from embedwell.tools.evaluation.mteb_tasks import find_tasks, score

    report = take_report_options(flags)
    mteb_tasks = find_tasks(names)
    dimensions, output_types = flags.pop("dimensions"), flags.pop("output_types")
    results: list[Result] = []
    for source in _sources(precisions, flags):
        results += score(mteb_tasks, source.embed, source.precision, dimensions, output_types)
    report_results(results, source.model, **report)


def _sources(precisions: Sequence[str], flags: Mapping[str, Any]) -> "Iterator[VectorSource]":
    """Return the model of the options in each precision, or the server. Raises ClickException."""
    from embedwell.tools.vector_source import vector_source

    if flags["server"] and precisions:
        raise click.UsageError("a server has only one precision; leave out --precisions")
    for precision in precisions or [flags["dtype"]]:
        with vector_source({**flags, "dtype": precision}) as source:
            yield source


def _texts(file: Path | None, column: str | None) -> Sequence[str]:
    from embedwell.tools.plots.texts import read_texts
    from embedwell_models.precision.sentences import SENTENCES

    return read_texts(file, column).texts if file else SENTENCES


def _reference_folder(flags: Mapping[str, Any], reference: str | None) -> Path:
    names = ("model", "revision", "cache") if reference is None else ("cache",)
    chosen = {name: flags[name] for name in names}
    return model_folder(read(chosen if reference is None else {**chosen, "model": reference}))
