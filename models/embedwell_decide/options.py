"""Options of a decision model: the lengths of its rows, and the temperatures of its answers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_decide.folder import OPTIONS
from embedwell_decide.questions import KINDS, Kind, RowFormat, temperature_name
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.records import record
from embedwell_models.vectors import Floats

_LOWEST, _HIGHEST = 0.5, 5.0
"""Bounds of a temperature, as in Laya's own code: published ones go down to 0.1, which would turn
a probability of 0.24 into 0.99."""


@record
class DecisionOptions:
    """Options of a decision model.

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
            max_length=_whole(options, "max_len", 512),
            max_question=_whole(options, "head_max_len", 192),
            temperatures=dict(zip(KINDS, map(_bounded, stated), strict=True)),
            by_size={name: _bounded(value) for name, value in by_size.items()},
        )

    def row_format(self, special_id: Callable[[str], int | None]) -> RowFormat:
        """Return the format of rows; raises ModelError for a tokenizer without special tokens.

        special_id: returns the id of the special token of a role.
        """
        ids = {role: special_id(role) for role in ("cls", "sep", "mask")}
        if missing := [role for role, id in ids.items() if id is None]:
            raise ModelError(f"the tokenizer of a decision model has no {missing[0]} token")
        known = {role: id for role, id in ids.items() if id is not None}
        return RowFormat(**known, max_length=self.max_length, max_question=self.max_question)

    def probabilities(self, kind: Kind, logits: Floats) -> npt.NDArray[np.float64]:
        """Return the probability of each option, which sum to one: (options,) -> (options,)."""
        name = temperature_name(kind, len(logits))
        scaled = logits.astype(np.float64) / self.by_size.get(name, self.temperatures[kind])
        powers = np.exp(scaled - scaled.max())
        probabilities: npt.NDArray[np.float64] = powers / powers.sum()
        return probabilities


def _whole(options: JsonConfig, key: str, default: int) -> int:
    value: int = options.get(key, default)
    if type(value) is not int or value < 1:
        raise ModelError(f"{options.path}: {OPTIONS}.{key} is not a whole number above 0")
    return value


def _bounded(value: Any) -> float:
    is_number = type(value) in {int, float} and np.isfinite(value)
    return min(_HIGHEST, max(_LOWEST, float(value))) if is_number else 1.0
