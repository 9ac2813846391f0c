"""Print and draw the results of an evaluation, and compare them with a minimum."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:  # loads numpy
    from embedwell.tools.evaluation.variants import Result


def take_report_options(flags: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of report_results from the flags, and return them."""
    return {name: flags.pop(name) for name in ("min_score", "plot", "as_json")}


def report_results(  # noqa: PLR0913 - all but two by name
    results: "Sequence[Result]",
    model: str,
    *,
    baselines: "Sequence[Result]" = (),
    min_score: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print and draw results, and exit with status 1 if one of the model is below the minimum.

    baselines: results without the model.
    """
    from embedwell.tools.evaluation.report import result_json, result_lines

    all_results = [*results, *baselines]
    report = {"model": model, "results": list(map(result_json, all_results))}
    print_report(report if as_json else result_lines(all_results))
    if plot:
        _draw(all_results, plot, model)
    low = [] if min_score is None else [r for r in results if not r.main[1] >= min_score]  # or NaN
    for result in low:
        name, value = result.main
        problem = "is not a number" if math.isnan(value) else f"is below --min-score {min_score}"
        click.echo(f"{result.task}: {name} {value:.2f} {problem}", err=True)
    sys.exit(bool(low))


def print_report(report: Mapping[str, Any] | Iterable[str]) -> None:
    """Print an object as JSON, or lines of text."""
    if isinstance(report, Mapping):
        click.echo(orjson.dumps(report, option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo("\n".join(report))


def _draw(results: "Sequence[Result]", output: Path, model: str) -> None:
    from embedwell.tools.evaluation.report import draw_costs
    from embedwell.tools.plots.picture_file import picture_file

    with picture_file(output, dark=False) as write:
        write(draw_costs(results, model), f"{model}: scores by bytes of a vector")
