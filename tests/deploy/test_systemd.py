"""The unit for systemd is valid, takes most rights away, and leaves the server time to stop."""

import re
import subprocess
from pathlib import Path

import pytest

from embedwell.settings.settings import PREFIX, Settings
from tests.programs import program

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "embedwell.service"
MOST_EXPOSURE = 30
"""Of the exposure that `systemd-analyze security` finds, in tenths; from 0 to 100."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is installed."""
    path, command = tmp_path / UNIT.name, program("sh", "dash")
    path.write_text(UNIT.read_text(encoding="utf-8").replace("/usr/local/bin/embedwell", command))
    return path


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze", "systemd"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_unit_is_valid(unit: Path) -> None:
    done = analyze("verify", str(unit))
    assert done.returncode == 0 and UNIT.name not in done.stderr, done.stderr


def test_the_server_has_few_rights(unit: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSURE}", str(unit))
    assert done.returncode == 0, done.stdout


def test_the_unit_names_settings_and_gives_the_server_time_to_stop() -> None:
    text = UNIT.read_text(encoding="utf-8")
    (cache,) = re.findall(rf"^Environment={PREFIX}CACHE=(\S+)", text, re.MULTILINE)
    (seconds,) = map(int, re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE))
    settings = Settings()
    assert cache == "/var/cache/embedwell" and "cache" in Settings.model_fields
    assert seconds > settings.shutdown_timeout + settings.drain_delay
