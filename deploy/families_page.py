"""Write the tables of families into docs/models.md: `python -m deploy.families_page`.

The rows come from families.toml, which tests/test_families_page.py compares with the code.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "docs" / "models.md"
DATA = Path(__file__).with_name("families.toml")
Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]
_HEADS = {
    "served": ("family", "`model_type`", "models", "positions", "layers"),
    "refused": ("name", "where", "why it is refused"),
}


def rows() -> Rows:
    """Read the rows of the tables `served` and `refused`."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def page(text: str) -> str:
    """Replace the tables of a page. Each table is between two comments with its name."""
    for name, table_rows in rows().items():
        before, start, rest = text.partition(f"<!-- {name}: from deploy/families.toml -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        assert start and end, f"{FILE} has no place for the table {name}"
        head = _HEADS[name]
        lines = [head, ("---",) * len(head), *(_cells(name, row) for row in table_rows)]
        table = "".join(_line(cells) for cells in lines)
        text = f"{before}{start}\n{table}\n{end}{after}"
    return text


def _cells(table: str, row: Row) -> tuple[str, ...]:
    if table == "refused":
        return f"`{row['name']}`", row["where"], row["why"]
    types = [f"`{name}`".replace("/", "` with `") for name in row["types"]] or ["none"]
    separator = ", " if any("/" in name for name in row["types"]) else " "
    return (
        *(row["family"], separator.join(types)),
        *(row["models"], row["positions"], row["layers"]),
    )


def _line(cells: tuple[str, ...]) -> str:
    if cells[0] == "---":
        return "|" + "|".join(cells) + "|\n"
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


if __name__ == "__main__":
    FILE.write_text(page(FILE.read_text(encoding="utf-8")), encoding="utf-8")
