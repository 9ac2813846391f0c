"""Folders for what programs keep for a user, in place of ~/.cache and ~/.config.

The model that was pulled is still found there, and so is what other programs downloaded.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_CONFIG = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
_MODEL = "embedwell/all-MiniLM-L6-v2"
_DOWNLOADS = ("pip", "uv", "ms-playwright", "go-build", "embedwell-image")  # for later runs, too
_SETTINGS = ("pip", "uv", "git", "containers", "go")  # of this machine's programs
_IN_HOME = {"MTEB_CACHE": ".cache/mteb", "STEPPATH": ".step", "TRITON_CACHE_DIR": ".triton"}
"""Variables of programs that ignore XDG_CACHE_HOME, and their folders in the user's home."""
_BEFORE = pytest.StashKey[set[Path]]()  # the user's files before the tests


def pytest_configure(config: pytest.Config) -> None:
    """Let this process and those that it starts use folders which are deleted at the end."""
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist has inherited them
        return
    own = Path(tempfile.mkdtemp(prefix="embedwell-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(own, ignore_errors=True))
    _link(own / "cache", _CACHE, (_MODEL, *_DOWNLOADS))
    _link(own / "config", _CONFIG, _SETTINGS)
    os.environ["XDG_CACHE_HOME"] = str(own / "cache")
    os.environ["XDG_CONFIG_HOME"] = str(own / "config")
    for name, folder in _IN_HOME.items():
        os.environ[name] = str(own / "home" / folder)
        (own / "home" / folder).mkdir(parents=True)
    if os.environ.get("CI"):  # elsewhere other programs may write files meanwhile
        config.stash[_BEFORE] = {*_files()}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail in CI if the tests left files in the user's folders."""
    if _new_files(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name those files."""
    for path in _new_files(config):
        terminalreporter.write_line(f"A test left a file in a folder of the user: {path}", red=True)


def _link(folder: Path, users: Path, names: tuple[str, ...]) -> None:
    folder.mkdir()
    for name in names:
        if (users / name).is_dir():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).symlink_to(users / name)


def _new_files(config: pytest.Config) -> list[Path]:
    before = config.stash.get(_BEFORE, None)
    return [] if before is None else sorted({*_files()} - before)


def _files() -> Iterator[Path]:
    for users in {_CACHE, _CONFIG, *(Path.home() / folder for folder in _IN_HOME.values())}:
        downloads = {users / name for name in _DOWNLOADS}
        for folder, names, files in os.walk(users):
            names[:] = [name for name in names if Path(folder, name) not in downloads]
            yield from (Path(folder, name) for name in files)
