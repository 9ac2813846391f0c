"""Print the requirements of the package with some extras: `python requirements.py EXTRA...`."""

import sys
import tomllib
from pathlib import Path
from typing import Any


def requirements(project: dict[str, Any], extras: list[str]) -> list[str]:
    """List the requirements of [project]; an extra may name other extras of the package."""
    optional: dict[str, list[str]] = project["optional-dependencies"]
    found: list[str] = list(project["dependencies"])
    wanted = list(extras)
    for extra in wanted:  # grows
        if extra not in optional:
            sys.exit(f"no extra {extra!r} in pyproject.toml; there are {', '.join(optional)}")
        for line in optional[extra]:
            package, _, names = line.partition("[")
            if package == project["name"]:
                wanted += [name for name in names.rstrip("]").split(",") if name not in wanted]
            else:
                found.append(line)
    return found


if __name__ == "__main__":
    table = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(*requirements(table, sys.argv[1:]), sep="\n")
