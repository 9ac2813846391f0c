"""Heat maps of position encodings, from responses of /positions (docs/positions.md)."""

from collections.abc import Mapping
from typing import Any

import click
import numpy as np
from matplotlib.colors import CenteredNorm, FuncNorm, Normalize

from embedwell_lab.plots.heatmap import Array, Panel
from embedwell_lab.plots.style import diverging_colors
from embedwell_models.vectors import cosine

_MAX_HEADS = 16  # maximum that fit into a figure


def title(encoding: Mapping[str, Any], model: str) -> str:
    """Return the scheme and its parameters, and the model if the numbers are trained."""
    parameters = encoding["parameters"].items()
    described = [f"{name} {_short(value)}" for name, value in parameters]
    has_trained_bias = "bias" in encoding and "slopes" not in encoding
    is_trained = encoding["scheme"] == "learned" or has_trained_bias
    scheme = f"{encoding['scheme']} of {model}" if is_trained else encoding["scheme"]
    return ", ".join([scheme, *described])


def panels(encoding: Mapping[str, Any]) -> list[Panel]:
    """Return the heat maps of an encoding; raises ClickException for the scheme none."""
    match encoding:
        case {"cos": cos, "sin": sin}:
            names = ("position", "pair of features")
            angles = np.degrees(np.arctan2(sin, cos))
            turn = Normalize(-180, 180)
            return [
                Panel("Angle", angles, *names, "degrees", turn, "twilight"),
                Panel("Cosine", cos, *names, "cosine", CenteredNorm(), diverging_colors()),
            ]
        case {"bias": bias, **others}:
            return _bias(bias, others.get("slopes"))
        case {"buckets": buckets}:
            sides = ("query", "key", "bucket")
            return [Panel("Bucket of each pair", buckets.astype(np.float64), *sides, Normalize())]
        case {"distances": distances, "vectors": vectors}:
            return [_vectors(vectors, "query - key", int(distances[0]))]
        case {"vectors": vectors}:
            table, sides = vectors.astype(np.float32), ("position", "position", "cosine")
            scale = Normalize(-1, 1), diverging_colors()
            cosines = Panel("Cosine of each pair", cosine(table, table), *sides, *scale)
            return [_vectors(vectors, "position", 0), cosines]
    raise click.ClickException("the scheme 'none' has no numbers; choose another with --scheme")


def _vectors(vectors: Array, rows: str, first: int) -> Panel:
    scale = _around_zero(vectors), diverging_colors()
    return Panel("Vectors", vectors, rows, "dimension", "value", *scale, first)


def _bias(bias: Array, slopes: Array | None) -> list[Panel]:
    """Return one heat map for each head, on the same scale; if there are many heads, for some."""
    values = np.where(np.isfinite(bias), bias, np.nan)
    norm, colors = _around_zero(values), diverging_colors()
    if slopes is not None:  # by the cube root, so that small values differ visibly
        limits = np.nanmin(values), np.nanmax(values)
        norm, colors = FuncNorm((np.cbrt, lambda root: root**3), *limits), "viridis"
    heads = np.unique(np.linspace(0, len(bias) - 1, min(len(bias), _MAX_HEADS)).round().astype(int))
    return [
        Panel(
            f"Head {head + 1}" if slopes is None else f"Head {head + 1}, slope {slopes[head]:.3g}",
            *(values[head], "query", "key", "added to the score", norm, colors),
        )
        for head in heads
    ]


def _around_zero(values: Array) -> Normalize:
    """Return a scale around zero, beyond which only one of 200 values lies."""
    limit = np.nanquantile(np.abs(values), 0.995, method="higher")
    return CenteredNorm(halfrange=float(limit) or 1.0)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
