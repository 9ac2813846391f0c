"""Names of a table's parts: in the files of each family, and our own."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

TABLE, ROWS, SCALES = "token_table", "token_rows", "token_scales"
CODES, CODEBOOKS = "token_codes", "token_codebooks"
POOL, IMPORTANCE = "token_pool", "token_importance"
TIER, DIRECTIONS = "token_tier", "token_directions"
"""Name format with the number of the tier, from 0."""
_PLAIN = (TABLE, ROWS, SCALES)
_PREFIX = "token_"
_COMPRESSED = re.compile(r"token_(codes|codebooks|tier\d+|directions\d+|pool|importance)")


def is_part(name: str) -> bool:
    """Whether our name of a tensor names a part of a table."""
    return name in _PLAIN or bool(_COMPRESSED.fullmatch(name))


@dataclass(frozen=True)
class TensorNames:
    """Names of a family's tensors; all other parts are named 'stem.codes' and so on.

    rows: name of the row indices; None for a family whose ids share no rows.
    """

    stem: str
    table: str
    scales: str
    rows: str | None = None

    def ours(self, names: Iterable[str]) -> dict[str, str]:
        """Return name in the file -> our name, for the tensors that are parts of a table."""
        return {name: ours for name in names if (ours := self._ours(name))}

    def theirs(self, part: str) -> str:
        """Return the name in a file of a part with our name."""
        plain = {TABLE: self.table, SCALES: self.scales}
        return plain.get(part, f"{self.stem}.{part.removeprefix(_PREFIX)}")

    def _ours(self, name: str) -> str | None:
        plain = {self.table: TABLE, self.scales: SCALES, self.rows: ROWS}
        if name in plain:
            return plain[name]
        ours = name.replace(f"{self.stem}.", _PREFIX, 1)
        return ours if name.startswith(f"{self.stem}.") and _COMPRESSED.fullmatch(ours) else None
