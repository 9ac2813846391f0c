"""Print the requirements in pyproject.toml that the GPU machine lacks, one per line.

installed.txt lists the packages of that machine.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

INSTALLED = Path(__file__).parent / "installed.txt"


def missing(requirements: Sequence[str], installed: set[str]) -> list[str]:
    """Return the requirements of Linux whose package is not installed, without their markers."""
    found = []
    for requirement in requirements:
        specifier, _, marker = requirement.partition(";")
        name = re.split(r"[^\w.-]", specifier)[0].lower().replace("_", "-")
        if name not in installed and "!= 'linux'" not in marker:
            found.append(specifier.strip())
    return found


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = set(INSTALLED.read_text(encoding="utf-8").split())
    sys.stdout.writelines(f"{each}\n" for each in missing(project["dependencies"], installed))


if __name__ == "__main__":
    main()
