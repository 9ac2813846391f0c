"""A copy of this checkout, for kernels that another compiler makes."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_checkout(target: Path) -> None:
    """Copy what the tests of the kernels need, and no kernels."""
    for folder in ("models", "service", "tests"):
        without = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / folder, target / folder, ignore=without)
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE"):
        shutil.copy(ROOT / name, target)
