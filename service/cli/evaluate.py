"""`embedding-service evaluate`: whether vectors are right, and how good they are."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from service.cli.evaluate_options import json_option, parity_options, task_options
from service.cli.extras import require
from service.cli.options import model_folder, read
from service.cli.source_options import source_options

if TYPE_CHECKING:  # they load numpy
    from service.evaluation.variants import Result


@click.group()
def evaluate() -> None:
    """Compare vectors with those of sentence-transformers, or score them on files.

    The model is loaded here, unless --server names a running server. The exit status is 1 if a
    number is less than wanted. Needs the extra 'evaluate':
    pip install 'embedding-service[evaluate]'.
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
    """Compare vectors with those that sentence-transformers computes in float32 on the CPU."""
    if flags["server"] and reference is None:
        raise click.UsageError("--server needs --reference: the model that the server serves")
    require("evaluate", "sentence_transformers")
    from service.cli.vector_source import vector_source
    from service.evaluation.parity import LEAST_COSINE, compare, reference_vectors
    from service.evaluation.report import parity_lines

    texts = _texts(file, column)[:limit]
    with vector_source(flags) as source:
        vectors, precision = source.embed(texts), source.precision
    folder = _reference_folder(flags, reference)
    result = compare(texts, vectors, reference_vectors(str(folder), texts, flags["prompt"]))
    least = LEAST_COSINE[precision] if min_cosine is None else min_cosine
    report = {"model": source.model, "precision": precision, **asdict(result), "min_cosine": least}
    _print(report if as_json else parity_lines(result, source.model, precision, least))
    if problem := result.problem(least):
        click.echo(f"{folder}: {problem}", err=True)
        sys.exit(1)


@evaluate.command()
@task_options
@json_option
@source_options
def tasks(  # noqa: PLR0913 - options
    *,
    precisions: Sequence[str],
    dimensions: Sequence[int],
    output_types: Sequence[Any],
    min_score: float | None,
    plot: Path | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Score vectors on files: similarity, analogies, clustering, classification, retrieval.

    Every option of a file may be given several times. With several precisions, dimensions or
    output types, each of them is scored.
    """
    if flags["server"] and precisions:
        raise click.UsageError("a server has one precision: leave out --precisions")
    require("evaluate", "scipy", "sklearn")
    from service.cli.task_files import read_tasks
    from service.cli.vector_source import vector_source
    from service.evaluation.report import result_json, result_lines
    from service.evaluation.scoring import score

    files = read_tasks(flags)
    results: list[Result] = []
    for precision in precisions or [flags["dtype"]]:
        with vector_source({**flags, "dtype": precision}) as source:
            results += score(files, source.embed, source.precision, dimensions, output_types)
    report = {"model": source.model, "results": list(map(result_json, results))}
    _print(report if as_json else result_lines(results))
    if plot:
        _draw(results, plot, source.model)
    low = [result for result in results if min_score is not None and result.main[1] < min_score]
    for result in low:
        name, value = result.main
        click.echo(f"{result.task}: {name} {value:.2f} is less than {min_score}", err=True)
    sys.exit(bool(low))


def _texts(file: Path | None, column: str | None) -> Sequence[str]:
    from models.precision.sentences import SENTENCES
    from service.plots.texts import read_texts

    return read_texts(file, column).texts if file else SENTENCES


def _reference_folder(flags: Mapping[str, Any], reference: str | None) -> Path:
    names = ("model", "revision", "cache") if reference is None else ("cache",)
    chosen = {name: flags[name] for name in names}
    return model_folder(read(chosen if reference is None else {**chosen, "model": reference}))


def _print(report: Mapping[str, Any] | Iterable[str]) -> None:
    if isinstance(report, Mapping):
        click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo("\n".join(report))


def _draw(results: "Sequence[Result]", output: Path, model: str) -> None:
    from service.cli.picture_file import picture_file
    from service.evaluation.report import draw_costs

    with picture_file(output, dark=False) as write:
        write(draw_costs(results, model), f"{model}: scores by bytes of a vector")
