"""The comparison of a generated file with what its generator would write now."""

import difflib
import itertools

import pytest

_SHOWN = 20  # lines of a difference


def assert_current(committed: str, now: str, command: str) -> None:
    """Fail with the command that writes the file, and the first lines that differ."""
    if committed != now:
        texts = committed.splitlines(), now.splitlines()
        lines = difflib.unified_diff(*texts, "committed", "now", lineterm="", n=0)
        first = "\n".join(itertools.islice(lines, _SHOWN))
        pytest.fail(f"run `{command}`, which changes:\n{first}", pytrace=False)
