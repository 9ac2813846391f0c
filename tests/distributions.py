"""The distributions of this checkout: built, unpacked, and installed into new environments."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "service" / "embedwell_client"
CONSTRAINTS = str(ROOT / "constraints.txt")
WITHOUT_COMPILER = "no-such-compiler"


def build(kind: Literal["sdist", "wheel"], project: Path, target: Path, **environment: str) -> Path:
    """Build a distribution of a project into an empty folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(
        command, cwd=project, check=True, env={**os.environ, **environment}, capture_output=True
    )
    [path] = target.iterdir()
    return path


def unpack(source_distribution: Path, target: Path) -> Path:
    """Unpack a source distribution; its folder, of another name.

    pip keeps a wheel of a folder that has a name and a version, and would install it ever after.
    """
    with tarfile.open(source_distribution) as file:
        file.extractall(target, filter="data")
    [folder] = target.iterdir()
    return folder.rename(target / "source")


def new_environment(folder: Path) -> Path:
    """Create an environment without pip."""
    venv.create(folder)
    return folder


def pip(environment: Path, *arguments: str) -> None:
    """Run pip for an environment, which need not have it; it compiles no bytecode."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    python = str(environment / "bin" / "python")
    environment_variables = {**os.environ, "PIP_COMPILE": "0"}
    subprocess.run(
        [*command, "--python", python, *arguments], check=True, env=environment_variables
    )


def site_packages(environment: Path) -> Path:
    [folder] = environment.glob("lib/python*/site-packages")
    return folder
