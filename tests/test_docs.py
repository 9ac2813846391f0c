"""The table of errors in docs has what the server can answer."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
CODE = re.compile(r'(?:\bcode=|\bcode = \d+, |^    code = )"(\w+)"', re.MULTILINE)
NOT_ANSWERED = {"client_gone", "too_large", "unsupported"}  # nobody hears it; the kinds have theirs


def test_the_table_of_errors_has_every_code_and_no_other() -> None:
    found = {
        code
        for path in (ROOT / "service").rglob("*.py")
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }
    rows = re.findall(r"^\| \d+ \|(.*?)\|", ERRORS, re.MULTILINE)
    assert found - NOT_ANSWERED == set(re.findall(r"`([a-z_]+)`", "".join(rows)))
