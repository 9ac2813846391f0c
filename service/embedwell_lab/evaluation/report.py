"""Report evaluation results: as text, as JSON, and as a chart of scores over bytes of a vector."""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from embedwell_lab.evaluation.scoring import Result

if TYPE_CHECKING:  # loads matplotlib
    from embedwell_lab.plots.render import Picture


def take_report_options(flags: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of report_results from the flags, and return them."""
    return {name: flags.pop(name) for name in ("min_score", "plot", "as_json")}


def report_results(  # noqa: PLR0913 - all but two by name
    results: Sequence[Result],
    model: str,
    *,
    baselines: Sequence[Result] = (),
    min_score: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print and draw results, and exit with status 1 if one of the model is below the minimum.

    baselines: results without the model.
    """
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


def _draw(results: Sequence[Result], output: Path, model: str) -> None:
    from embedwell_lab.plots.render import picture_file

    with picture_file(output, dark=False) as write:
        write(draw_costs(results, model), f"{model}: scores by bytes of a vector")


def result_lines(results: Sequence[Result]) -> Iterator[str]:
    """Format a header and a line for each result; the main score comes first."""
    header = ("task", "precision", "dimensions", "type", "bytes", "scores")
    rows = [header, *map(_cells, results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header) - 1)]
    for *cells, scores in rows:
        row = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{row}  {scores}"


def _cells(result: Result) -> tuple[str, ...]:
    variant = result.variant
    scores = "  ".join(f"{name} {score:.2f}" for name, score in result.scores.items())
    size = f"{variant.num_bytes:,}"
    return result.task, result.precision, str(variant.dimensions), variant.output_type, size, scores


def result_json(result: Result) -> dict[str, Any]:
    """Return a result as an object of the report in JSON."""
    variant = {**asdict(result.variant), "bytes": result.variant.num_bytes}
    return {
        "task": result.task,
        "precision": result.precision,
        **variant,
        "scores": dict(result.scores),
    }


def draw_costs(results: Sequence[Result], model: str) -> "Picture":
    """Draw main scores over bytes of a vector, a line for each task, precision and output type."""
    from matplotlib.figure import Figure

    from embedwell_lab.plots.render import Picture, freeze_layout
    from embedwell_lab.plots.style import category_colors, set_title

    figure = Figure(figsize=(9, 5.5), layout="constrained")
    common, names = _line_names(results)
    set_title(figure, " · ".join((model, *common)))
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    scores = sorted({result.main[0] for result in results})
    axes.set(xlabel="bytes of a vector", ylabel=" or ".join(scores))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", linewidth=0.5)
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, result in zip(names, results, strict=True):
        lines.setdefault(name, []).append((result.variant.num_bytes, result.main[1]))
    for (name, points), color in zip(lines.items(), category_colors(len(lines)), strict=True):
        axes.plot(*zip(*sorted(points), strict=True), marker="o", color=color, label=name)
    if len(lines) > 1:
        figure.legend(loc="outside lower left", fontsize=9)
    freeze_layout(figure)
    ends = [(result.variant.num_bytes, result.main[1]) for result in results]
    fractions = axes.transData.transform(ends) / figure.bbox.size
    texts = ["  ".join(_cells(result)) for result in results]
    hover = [(float(x), float(1 - y), text) for (x, y), text in zip(fractions, texts, strict=True)]
    return Picture(figure, points=hover)


def _line_names(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """Return the properties that all results share, and for each result those that identify it."""
    rows = [
        (result.task, f"model in {result.precision}", f"vectors in {result.variant.output_type}")
        for result in results
    ]
    is_common = [len(set(column)) == 1 for column in zip(*rows, strict=True)]
    common = [cell for cell, same in zip(rows[0], is_common, strict=True) if same]
    names = [
        ", ".join(cell for cell, same in zip(row, is_common, strict=True) if not same)
        for row in rows
    ]
    return common, names
