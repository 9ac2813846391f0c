"""Options of a position scheme, those of /positions (docs/positions.md)."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

SCHEMES = (
    *("none", "sinusoidal", "learned", "rotary", "alibi"),
    *("relative", "mpnet", "disentangled", "transformer_xl"),
)
_SCALINGS = ("default", "linear", "dynamic", "ntk", "yarn", "llama3")

_NUMBERS: dict[str, tuple[type, str]] = {
    "layer": (
        int,
        "Layer of the model whose scheme to use: 0 for the input, 1 to L for that layer.",
    ),
    "dim": (int, "Dimensions of the vectors, or of the rotated part of a head."),
    "base": (float, "Base of the angles (sinusoidal, rotary, transformer_xl)."),
    "factor": (float, "Factor of a rotary scaling."),
    "original": (int, "Tokens of the training's texts, for a rotary scaling."),
    "length": (int, "Tokens of the text (scaling dynamic)."),
    "magnitude": (float, "Factor of cosine and sine (scaling yarn)."),
    "fast": (float, "Rotations above which an angle is kept (scalings yarn, llama3)."),
    "slow": (float, "Rotations below which an angle is divided (scalings yarn, llama3)."),
    "heads": (int, "Number of heads (alibi)."),
    "steepest": (float, "The last slope is 2 to the power of minus this number (alibi)."),
    "buckets": (int, "Number of buckets (relative, mpnet, disentangled)."),
    "max_distance": (int, "Distance at which the last bucket begins."),
}
_SWITCHES = {
    "interleaved": "Rotate adjacent columns, or columns of the two halves (rotary).",
    "whole": "Round the columns between which yarn interpolates.",
    "causal": "Mask the keys after a query (alibi).",
    "bidirectional": "Use separate buckets for keys after a query (relative, mpnet).",
}


def position_options(command: F) -> F:
    """Add click options for the fields of /positions, without defaults except for the count."""
    command = click.option(
        "--scaling", type=click.Choice(_SCALINGS), help="Scaling of the rotary scheme."
    )(command)
    for name, text in reversed(_SWITCHES.items()):
        flag = name.replace("_", "-")
        command = click.option(f"--{flag}/--no-{flag}", name, default=None, help=text)(command)
    for name, (kind, text) in reversed(_NUMBERS.items()):
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, name, type=kind, metavar="NUMBER", help=text)(command)
    command = click.option(
        "--count",
        type=click.IntRange(2, 2048),
        default=64,
        show_default=True,
        help="Number of positions, from 0.",
    )(command)
    return click.option(
        "--scheme", type=click.Choice(SCHEMES), help="Position scheme.  [default: the model's own]"
    )(command)


NAMES = ("scheme", "count", "scaling", *_NUMBERS, *_SWITCHES)
"""Names of these options."""
