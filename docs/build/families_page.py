"""Write the tables of families into docs/models.md: `python -m docs.build.families_page`.

The records of families hold the rows of those that are served, refused_models.toml the others.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedwell_models import families
from embedwell_models.families.family import Family, Variant

FILE = Path(__file__).parents[1] / "models.md"
_REFUSED = Path(__file__).with_name("refused_models.toml")
_HEADS = {
    "served families": ("family", "`model_type`", "models", "positions", "layers", "torch"),
    "refused models": ("name", "where", "why it is refused"),
}


def served(registry: Sequence[Family] = families.ALL) -> Iterator[tuple[str, ...]]:
    """Build the row of each family, and its model types; several families can share a row."""
    rows = dict.fromkeys(row for family in registry for row in family.rows)
    for row in rows:
        types = [each for family in registry if row in family.rows for each in family.model_types]
        yield row.family, _model_types(types), row.models, row.positions, row.layers, row.torch


def refused() -> list[Mapping[str, Any]]:
    """Read the refused models."""
    rows: list[Mapping[str, Any]] = tomllib.loads(_REFUSED.read_text(encoding="utf-8"))["refused"]
    return rows


def page(text: str) -> str:
    """Replace the tables of a page. Each table is between two comments with its name."""
    rows: dict[str, list[tuple[str, ...]]] = {
        "served families": list(served()),
        "refused models": [(f"`{row['name']}`", row["where"], row["why"]) for row in refused()],
    }
    for name, head in _HEADS.items():
        before, start, rest = text.partition(f"<!-- {name}: written by make openapi -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        assert start and end, f"{FILE} has no place for the table {name}"
        lines = [head, ("---",) * len(head), *rows[name]]
        table = "".join(_line(cells) for cells in lines)
        text = f"{before}{start}\n{table}\n{end}{after}"
    return text


def _model_types(types: Sequence[str | Variant]) -> str:
    names = [
        f"`{each.model_type}` with `{each.sign}`" if isinstance(each, Variant) else f"`{each}`"
        for each in types
    ]
    has_variant = any(isinstance(each, Variant) for each in types)
    return (", " if has_variant else " ").join(names) or "none"


def _line(cells: tuple[str, ...]) -> str:
    if cells[0] == "---":
        return "|" + "|".join(cells) + "|\n"
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
