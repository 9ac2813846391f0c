"""`embedwell plot`: plot texts, similarities and position encodings."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from embedwell.cli.options import TEXT_FILE, decorate, require
from embedwell.routes.positions import PositionsRequest
from embedwell_lab.options import drawing_options, text_options

if TYPE_CHECKING:  # they load numpy and matplotlib
    from embedwell_lab.plots.render import Picture
    from embedwell_lab.vector_source import VectorSource

F = TypeVar("F", bound=Callable[..., Any])

_POSITION_OPTIONS = {
    name: field
    for name, field in PositionsRequest.model_json_schema()["properties"].items()
    if name not in ("positions", "count", "model")
}
"""JSON schemas of the fields of /positions that are options."""


def position_options(command: F) -> F:
    """Add an option for each field of /positions."""
    count = click.option(
        "--count",
        type=click.IntRange(2, 2048),
        default=64,
        show_default=True,
        help="Number of positions, from 0.",
    )
    return decorate(command, count, *map(_position_option, _POSITION_OPTIONS))


def _position_option(name: str) -> Callable[[F], F]:
    field = _POSITION_OPTIONS[name]
    kind: Any = field["anyOf"][0]  # the other is null
    words = name.replace("_", "-")
    if kind.get("type") == "boolean":
        return click.option(f"--{words}/--no-{words}", default=None, help=field["description"])
    types = {"integer": int, "number": float}
    choices = kind.get("enum")
    return click.option(
        f"--{words}",
        type=click.Choice(choices) if choices else types[kind["type"]],
        metavar=None if choices else "NUMBER",
        help=field["description"],
    )


_METHODS = ("pca", "tsne", "umap")
_METRICS = ("cosine", "dot", "euclidean", "manhattan")
_MAX_TEXTS = 500  # maximum texts on a side of a similarity plot


@click.group()
def plot() -> None:
    """Draw texts, their similarity, or position encodings.

    Pictures are .png, .svg, or .html: one page that shows texts and values on hover. The model is
    loaded here, unless --server names a running server.

    Drawing needs the packages of the extra `plot`.
    """


@plot.command(name="map")
@click.argument("file", type=TEXT_FILE)
@text_options
@click.option("--method", type=click.Choice(_METHODS), default="pca", show_default=True)
@click.option("--label", is_flag=True, help="Write the texts next to their points.")
@click.option("--color-by", metavar="COLUMN", help="Colour points by a category or a number.")
@click.option("--clusters", type=click.IntRange(2, 30), help="Colour points by k-means clusters.")
@drawing_options
def draw_map(  # noqa: PLR0913 - options
    file: Path,
    *,
    output: Path,
    column: str | None,
    method: str,
    label: bool,
    color_by: str | None,
    clusters: int | None,
    dark: bool,
    **flags: Any,
) -> None:
    """Draw the texts of FILE as points.

    Similar texts are close together. FILE has a text on each line, or is a .csv, .tsv or .jsonl
    with columns.
    """
    from embedwell_lab.plots.projection import MIN_TEXTS
    from embedwell_lab.texts import read_texts

    if color_by and clusters:
        raise click.UsageError(
            "give either --color-by or --clusters, not both: each needs the colours"
        )
    if method == "umap":
        require("plot", "umap")
    table = read_texts(file, column, color_by)
    least = max(MIN_TEXTS[method], clusters or 0)
    if len(table.texts) < least:
        raise click.ClickException(
            f"{file} has {len(table.texts)} texts, but this plot needs at least {least}"
        )
    with _drawing(output, dark, flags) as (source, write):
        from embedwell_lab.plots import scatter
        from embedwell_lab.plots.projection import cluster, project
        from embedwell_models.vectors import normalize

        vectors, colors = normalize(source.embed(table.texts)), None
        if color_by:
            colors = scatter.color_by_column(color_by, table.values)
        elif clusters:
            groups = cluster(vectors, clusters)
            colors = scatter.color_by_cluster(table.texts, vectors, groups)
        title = f"{file.name} · {len(table.texts)} texts · {source.model}"
        points = project(vectors, method)
        write(scatter.draw_map(points, table.texts, title, colors, label), title)


@plot.command()
@click.argument("file", type=TEXT_FILE)
@click.argument("file2", type=TEXT_FILE, required=False)
@text_options
@click.option("--metric", type=click.Choice(_METRICS), default="cosine", show_default=True)
@drawing_options
def similarity(  # noqa: PLR0913 - options
    file: Path,
    file2: Path | None,
    *,
    output: Path,
    column: str | None,
    metric: str,
    dark: bool,
    **flags: Any,
) -> None:
    """Draw the similarities of texts as a heat map.

    The texts of FILE are compared with those of FILE2, or with each other.
    """
    from embedwell_lab.texts import read_texts

    rows = read_texts(file, column).texts
    columns = read_texts(file2, column).texts if file2 else rows
    for path, texts in ((file, rows), (file2, columns)):
        if len(texts) > _MAX_TEXTS:
            raise click.ClickException(
                f"{path} has {len(texts)} texts, but a plot shows at most {_MAX_TEXTS}; take "
                "some out"
            )
    if len(rows) == len(columns) == 1:
        raise click.ClickException(f"{file} has only one text; give at least two, or a second file")
    with _drawing(output, dark, flags) as (source, write):
        from embedwell_lab.plots.heatmap import draw_similarity

        names = " and ".join(path.name for path in (file, file2) if path)
        title = f"{names} · {source.model}"
        scores = source.similarity(rows, columns, metric)
        write(draw_similarity(scores, metric, rows, columns, title), title)


@plot.command()
@position_options
@drawing_options
def positions(output: Path, dark: bool, **flags: Any) -> None:
    """Draw a position encoding as heat maps.

    They show vectors, angles, biases or buckets. Options that are not given have the model's
    values if the scheme is the model's own, otherwise common defaults.
    """
    chosen = {name: flags.pop(name) for name in ("count", *_POSITION_OPTIONS)}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    with _drawing(output, dark, flags) as (source, write):
        from embedwell_lab.plots import heatmap
        from embedwell_lab.plots import positions as position_plots

        encoding = source.positions(chosen)
        panels = position_plots.panels(encoding)
        title = position_plots.title(encoding, source.model)
        write(heatmap.draw_panels(panels, title), title)


@contextmanager
def _drawing(
    output: Path, dark: bool, flags: Mapping[str, Any]
) -> Iterator[tuple["VectorSource", Callable[["Picture", str], None]]]:
    """Yield the source of vectors, and a function that writes a plot with a title."""
    from embedwell_lab.plots.render import picture_file
    from embedwell_lab.vector_source import vector_source

    with picture_file(output, dark) as write, vector_source(flags) as source:
        yield source, write
    click.echo(output)
