"""Write the tables of families into docs: `python -m docs.build.families_page`.

docs/models.md has all families, docs/rerank.md and docs/sparse.md those with heads. The records of
families hold the rows of those that are served, refused_models.toml the others.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedwell_models import families
from embedwell_models.families.family import Family, Variant

DOCS = Path(__file__).parents[1]
PAGES: Mapping[str, Sequence[str]] = {
    "models.md": ("served families", "refused models"),
    "rerank.md": ("families that rerank",),
    "sparse.md": ("families with sparse vectors",),
}
"""The names of the tables of each page."""

_REFUSED = Path(__file__).with_name("refused_models.toml")
_HEADS = {
    "served families": ("family", "`model_type`", "models", "positions", "layers", "torch"),
    "refused models": ("name", "where", "why it is refused"),
    "families that rerank": ("family", "`…ForSequenceClassification`", "by the next token"),
    "families with sparse vectors": ("family", "`model_type` of a `…ForMaskedLM`"),
}
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def served(registry: Sequence[Family] = families.ALL) -> Iterator[tuple[str, ...]]:
    """Build the row of each family, and its model types; several families can share a row."""
    rows = dict.fromkeys(row for family in registry for row in family.rows)
    for row in rows:
        types = [each for family in registry if row in family.rows for each in family.model_types]
        names = _model_types(types) or "none"
        yield row.family, names, row.models, row.positions, row.layers, row.torch


def with_heads(
    *heads: Callable[[Family], object], registry: Sequence[Family] = families.ALL
) -> Iterator[tuple[str, ...]]:
    """Build the row of each family that has one of the heads: for each, the model types with it."""
    for row in dict.fromkeys(family.rows[0] for family in registry):
        members = [family for family in registry if family.rows[0] == row]
        cells = [
            _model_types([each for family in members if has(family) for each in family.model_types])
            for has in heads
        ]
        if any(cells):
            yield _LINK.sub(r"\1", row.family), *cells


def refused() -> list[Mapping[str, Any]]:
    """Read the refused models."""
    rows: list[Mapping[str, Any]] = tomllib.loads(_REFUSED.read_text(encoding="utf-8"))["refused"]
    return rows


def page(name: str) -> str:
    """Replace the tables of a page of docs. Each table is between two comments with its name."""
    rows: dict[str, list[tuple[str, ...]]] = {
        "served families": list(served()),
        "refused models": [(f"`{row['name']}`", row["where"], row["why"]) for row in refused()],
        "families that rerank": list(
            with_heads(lambda each: each.classification_head, lambda each: each.next_token)
        ),
        "families with sparse vectors": list(with_heads(lambda each: each.masked_lm_head)),
    }
    text = (DOCS / name).read_text(encoding="utf-8")
    for table_name in PAGES[name]:
        before, start, rest = text.partition(f"<!-- {table_name}: written by make openapi -->\n")
        _, end, after = rest.partition(f"<!-- end of {table_name} -->")
        assert start and end, f"{name} has no place for the table {table_name}"
        head = _HEADS[table_name]
        lines = [head, ("---",) * len(head), *rows[table_name]]
        table = "".join(_line(cells) for cells in lines)
        text = f"{before}{start}\n{table}\n{end}{after}"
    return text


def _model_types(types: Sequence[str | Variant]) -> str:
    names = [
        f"`{each.model_type}` with `{each.sign}`" if isinstance(each, Variant) else f"`{each}`"
        for each in types
        if not isinstance(each, Variant) or each.model_type  # a file without one, too
    ]
    has_variant = any(isinstance(each, Variant) for each in types)
    return (", " if has_variant else " ").join(names)


def _line(cells: tuple[str, ...]) -> str:
    if cells[0] == "---":
        return "|" + "|".join(cells) + "|\n"
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


if __name__ == "__main__":
    for file in PAGES:
        (DOCS / file).write_text(page(file), encoding="utf-8")
