"""Fixture of the commands that compare and draw vectors."""

import pytest


@pytest.fixture(autouse=True)
def _float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands without a precision compute in float32, instead of trying each one."""
    monkeypatch.setenv("EMBEDWELL_DTYPE", "float32")
