"""Names in the whole project: its own, and the packages that pages tell people to install."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLD = re.compile(r"(?i:embedding[-_ ]service)|(?<![A-Za-z_])EMBEDDING_(?!MODEL=text)")
INSTALL = re.compile(r"pip3? (?:install|download|wheel)((?: +[^\s`|&;)]+)+)")
OURS = re.compile(r"^['\"]?embedwell(?:[-_]\w+)?(?:\[|$|[=<>'\"])")


def files() -> list[Path]:
    """The text files of the project."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:8192]]


def test_no_file_has_a_former_name() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    found = {
        (path.relative_to(ROOT).as_posix(), match[0])
        for path in files()
        if path != Path(__file__)
        for match in OLD.finditer(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_no_command_installs_a_distribution_of_this_name_from_an_index() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    arguments = {
        (path.relative_to(ROOT).as_posix(), argument)
        for path in files()
        for match in INSTALL.finditer(path.read_text(encoding="utf-8"))
        if "--no-index" not in match[1]
        for argument in match[1].split()
    }
    assert len(arguments) > 20
    assert not {each for each in arguments if OURS.match(each[1])}
