"""Tests that a run of tests leaves nothing in the user's folders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VARIABLES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MTEB_CACHE", "STEPPATH", "TRITON_CACHE_DIR")
TEST = f"""
import os
import subprocess
from pathlib import Path

def test_programs_keep_files():
    model = Path(os.environ["XDG_CACHE_HOME"], "embedwell", "all-MiniLM-L6-v2")
    assert (model / "config.json").read_text() == "{{}}"
    for name in {VARIABLES}:
        Path(os.environ[name], "program").mkdir()
        subprocess.run(["bash", "-uc", "echo > $" + name + "/program/file"], check=True)
    Path(os.environ["XDG_CACHE_HOME"], "pip", "download").touch()
"""
CARELESS = """
from pathlib import Path

def test_a_program_ignores_the_variables():
    Path.home().joinpath(".config", "program").touch()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home with a model, and a package that was downloaded."""
    model = tmp_path / "home" / ".cache" / "embedwell" / "all-MiniLM-L6-v2"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (tmp_path / "home" / ".config").mkdir()
    (tmp_path / "home" / ".cache" / "pip").mkdir()
    return tmp_path / "home"


def run(home: Path, test: str, *options: str) -> tuple[int, str]:
    (home / "test_it.py").write_text(test)
    own = (*VARIABLES, "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"HOME": str(home), "CI": "true", "PYTHONPATH": str(ROOT)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.user_folders", *options]
    done = subprocess.run(
        [*command, "--rootdir", str(home), str(home / "test_it.py")],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def files(home: Path) -> list[Path]:
    return sorted(path for path in home.glob(".c*/**/*") if path.is_file())


@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "1")])
def test_what_programs_keep_is_not_kept_for_the_user(home: Path, options: tuple[str, ...]) -> None:
    before = files(home)
    assert run(home, TEST, *options)[0] == 0
    assert files(home) == [*before, home / ".cache" / "pip" / "download"]


def test_a_run_that_leaves_a_file_fails_in_ci(home: Path) -> None:
    status, output = run(home, CARELESS)
    assert status == 1 and "1 passed" in output
    assert f"folder of the user: {home / '.config' / 'program'}" in output
