"""The shape of an encoder, read from a checkpoint's config.json."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import ModelError
from models.families import FAMILIES, Family


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes of a transformer encoder.

    Raises ModelError where the width does not divide into heads.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int
    activation: str
    norm_eps: float

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_heads:
            raise ModelError(
                f"hidden_size {self.hidden_size} does not divide into {self.num_heads} heads"
            )

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    @classmethod
    def read(cls, folder: Path) -> "EncoderConfig":
        """Read `config.json`; raises ModelError on an unknown family or an unsupported option."""
        raw = read_json(folder / "config.json")
        name = raw.get("model_type", "")
        family = FAMILIES.get(name)
        if family is None:
            raise ModelError(
                f"{folder}: model_type {name!r} is not supported; supported: {sorted(FAMILIES)}"
            )
        _refuse(folder, raw, family)
        try:
            fields = {ours: raw[theirs] for ours, theirs in family.fields.items()}
        except KeyError as missing:
            raise ModelError(f"{folder}/config.json has no {missing}") from None
        return cls(family=name, **fields)


def _refuse(folder: Path, raw: dict[str, Any], family: Family) -> None:
    for key, allowed in family.allowed.items():
        value = raw.get(key, allowed[0])
        if value not in allowed:
            raise ModelError(
                f"{folder}/config.json: {key} = {value!r} is not supported; supported: {allowed}"
            )


def read_json(path: Path) -> Any:
    """Parse a JSON file; raises ModelError that names it when it is missing or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is missing: not a model folder") from None
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from None
