"""Options of a Laya: the lengths of its rows, and the temperatures of its answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_decide.folder import OPTIONS
from embedwell_decide.questions import KINDS, Kind
from embedwell_decide.rows import softmax
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_LOWEST, _HIGHEST = 0.5, 5.0
"""Bounds of a temperature, as in Laya's own code: published ones go down to 0.1, which would turn
a probability of 0.24 into 0.99."""


@dataclass(frozen=True)
class DecisionOptions:
    """Options of a Laya.

    layers: number of layers after the encoder. max_length: tokens of a row. max_question: tokens of
    a question with its options. temperatures: of each kind of question. by_size: of kinds of
    questions with some numbers of options, see `temperature_name`; these have precedence.
    """

    layers: int
    max_length: int
    max_question: int
    temperatures: Mapping[Kind, float]
    by_size: Mapping[str, float]

    @classmethod
    def read(cls, folder: Path) -> "DecisionOptions":
        """Read the options of a model's folder; raises ModelError for a value of another type."""
        options = JsonConfig(folder / "config.json").nested(OPTIONS)
        stated: Any = options.get("temperature") or [1.0] * len(KINDS)
        by_size = options.get("temperature_by_options", {})
        if not (isinstance(stated, list) and len(stated) == len(KINDS)):
            raise ModelError(
                f"{options.path}: {OPTIONS}.temperature = {stated!r} is not a list of "
                f"{len(KINDS)} numbers"
            )
        return cls(
            layers=_whole(options, "head_layers", 2),
            max_length=max_length(options),
            max_question=_whole(options, "head_max_len", 192),
            temperatures=dict(zip(KINDS, map(_bounded, stated), strict=True)),
            by_size={name: _bounded(value) for name, value in by_size.items()},
        )

    def probabilities(self, kind: Kind, logits: Floats) -> npt.NDArray[np.float64]:
        """Return the probability of each option, which sum to one: (options,) -> (options,)."""
        name = temperature_name(kind, len(logits))
        scaled = logits.astype(np.float64) / self.by_size.get(name, self.temperatures[kind])
        return softmax(scaled)


def temperature_name(kind: Kind, options: int) -> str:
    """Return the name under which a checkpoint has the temperature of such questions."""
    sizes = ((2, "2"), (5, "3-5"), (10, "6-10"))
    size = next((name for most, name in sizes if options <= most), "11+")
    return f"{kind}:{size}"


def max_length(options: JsonConfig) -> int:
    """Return the tokens of a row; raises ModelError for another type."""
    return _whole(options, "max_len", 512)


def _whole(options: JsonConfig, key: str, default: int) -> int:
    value: int = options.get(key, default)
    if type(value) is not int or value < 1:
        raise ModelError(f"{options.path}: {OPTIONS}.{key} is not a whole number above 0")
    return value


def _bounded(value: Any) -> float:
    is_number = type(value) in {int, float} and np.isfinite(value)
    return min(_HIGHEST, max(_LOWEST, float(value))) if is_number else 1.0
