"""Print the Homebrew formula of a release: `python formula.py SDIST URL`; needs uv.

SDIST: the file of the source distribution. URL: the folder from which the release offers it.

What the package requires becomes resources of the formula, in the versions of constraints.txt:
wheels of pure Python, and sources of the others, which Homebrew compiles.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from string import Template
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PYTHON = "3.14"
FROM_HOMEBREW = ("numpy", "pillow", "pip")  # formulas that need no compiler; python's brings pip
_PURE_WHEEL = re.compile(r"[.-]py3-none-any\.whl$")  # what Homebrew installs without unpacking
_RESOURCE = Template("""\
  resource "$name" do
    url "$url"
    sha256 "$sha256"
  end
""")


def locked_packages() -> list[dict[str, Any]]:
    """List the packages that ours requires on macOS, with their files, as pylock.toml does."""
    uv = shutil.which("uv", path=Path(sys.executable).parent) or "uv"
    command = [uv, "pip", "compile", "pyproject.toml", "--constraints", "constraints.txt"]
    platform = ["--python-version", PYTHON, "--python-platform", "aarch64-apple-darwin"]
    omitted = [f"--no-emit-package={name}" for name in FROM_HOMEBREW]
    options = ["--quiet", "--format", "pylock.toml", *platform, *omitted]
    lock = subprocess.run([*command, *options], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    packages: list[dict[str, Any]] = tomllib.loads(lock.stdout.decode())["packages"]
    return packages


def resource(package: dict[str, Any]) -> str:
    """Return the resource of a locked package: its wheel for every platform, or its source."""
    wheels = [each for each in package.get("wheels", []) if _PURE_WHEEL.search(each["url"])]
    file = wheels[0] if wheels else package["sdist"]
    return _RESOURCE.substitute(
        name=package["name"], url=file["url"], sha256=file["hashes"]["sha256"]
    )


def formula(source_distribution: Path, folder_url: str) -> str:
    """Return the formula."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    template = Template((FOLDER / "embedwell.rb.template").read_text(encoding="utf-8"))
    return template.substitute(
        homepage=project["urls"]["Repository"],
        license=project["license"],
        url=f"{folder_url}/{source_distribution.name}",
        sha256=hashlib.sha256(source_distribution.read_bytes()).hexdigest(),
        python=PYTHON,
        resources="\n".join(map(resource, locked_packages())).rstrip(),
    )


if __name__ == "__main__":
    print(formula(Path(sys.argv[1]), sys.argv[2]), end="")
