"""Heat maps of position encodings, from responses of /positions (docs/positions.md)."""

from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from embedwell_lab.plots.heatmap import Array, Panel, Scale
from embedwell_lab.plots.style import cyclic_colors, diverging_colors
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
            return _rotary(cos, sin)
        case {"bias": bias, **others}:
            return _bias(bias, others.get("slopes"))
        case {"buckets": buckets}:
            return [_buckets(encoding["scheme"], buckets)]
        case {"distances": distances, "vectors": vectors}:
            return [_vectors(vectors, "query - key", int(distances[0]))]
        case {"vectors": vectors}:
            return [_vectors(vectors, "position", 0), _likeness(vectors)]
    raise click.ClickException("the scheme 'none' has no numbers; choose another with --scheme")


def _rotary(cos: Array, sin: Array) -> list[Panel]:
    angles = np.degrees(np.arctan2(sin, cos))
    names = ("position", "pair of features")
    degrees = Scale("degrees", -180, 180, cyclic_colors(), ticks=(-180, -90, 0, 90, 180))
    return [
        Panel("Angle", angles, *names, degrees),
        Panel("Cosine", cos, *names, Scale.symmetric("cosine", cos)),
    ]


def _bias(bias: Array, slopes: Array | None) -> list[Panel]:
    """Return one heat map for each head, on the same scale; if there are many heads, for some."""
    values = np.where(np.isfinite(bias), bias, np.nan)
    low, high = np.nanmin(values), np.nanmax(values)
    label = "added to the score"
    scale = (
        Scale.symmetric(label, values) if slopes is None else Scale(label, low, high, cubic=True)
    )
    heads = np.unique(np.linspace(0, len(bias) - 1, min(len(bias), _MAX_HEADS)).round().astype(int))
    return [
        Panel(
            f"Head {head + 1}" if slopes is None else f"Head {head + 1}, slope {slopes[head]:.3g}",
            *(values[head], "query", "key", scale),
        )
        for head in heads
    ]


def _buckets(scheme: str, buckets: Array) -> Panel:
    values = buckets.astype(np.float64)
    scale = (
        Scale.symmetric("bucket", values)
        if scheme == "disentangled"
        else Scale("bucket", 0, max(1.0, float(values.max())))
    )
    return Panel("Bucket of each pair", values, "query", "key", scale)


def _vectors(vectors: Array, rows: str, first: int) -> Panel:
    scale = Scale.symmetric("value", vectors)
    return Panel("Vectors", vectors, rows, "dimension", scale, first)


def _likeness(vectors: Array) -> Panel:
    table = vectors.astype(np.float32)
    scale = Scale("cosine", -1, 1, diverging_colors())
    return Panel("Cosine of each pair", cosine(table, table), "position", "position", scale)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
