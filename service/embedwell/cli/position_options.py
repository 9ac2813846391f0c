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
    "layer": (int, "One of the model's own schemes: 0 of the input, 1 to L of that layer."),
    "dim": (int, "Width of the vectors, or of the rotated part of a head."),
    "base": (float, "Of the angles: sinusoidal, rotary, transformer_xl."),
    "factor": (float, "Of a rotary scaling, with the options up to --slow."),
    "original": (int, "Length of the training's texts."),
    "length": (int, "Length of the text: dynamic."),
    "magnitude": (float, "Multiplies cosine and sine: yarn."),
    "fast": (float, "Rotations above which an angle is kept: yarn, llama3."),
    "slow": (float, "Rotations below which an angle is divided: yarn, llama3."),
    "heads": (int, "Heads of alibi."),
    "steepest": (float, "The last slope of alibi is 2 to the power of minus this."),
    "buckets": (int, "Of relative, mpnet and disentangled."),
    "max_distance": (int, "Where the last bucket begins."),
}
_SWITCHES = {
    "interleaved": "Rotary turns neighbouring columns, or those of the two halves.",
    "whole": "Round the columns between which yarn interpolates.",
    "causal": "Alibi without the keys after a query.",
    "bidirectional": "Buckets for keys after a query: relative, mpnet.",
}


def position_options(command: F) -> F:
    """Click options for the fields of /positions, all without a default but the count."""
    command = click.option("--scaling", type=click.Choice(_SCALINGS), help="Of rotary.")(command)
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
        help="Positions, from 0.",
    )(command)
    return click.option("--scheme", type=click.Choice(SCHEMES), help="The model's own by default.")(
        command
    )


NAMES = ("scheme", "count", "scaling", *_NUMBERS, *_SWITCHES)
"""Names of these options."""
