"""Import what requirements.txt names: `python import_requirements.py`, after files were removed."""

import re
from importlib import import_module
from importlib.metadata import files
from pathlib import Path, PurePath


def modules(distribution: str) -> list[str]:
    """The outermost modules of an installed distribution: of a namespace, those in it."""
    installed = [PurePath(file) for file in files(distribution) or []]
    packages = {file.parent for file in installed if file.name == "__init__.py"}
    outermost = {folder for folder in packages if not packages & {*folder.parents}}
    alone = {file.with_suffix("") for file in installed if str(file) == f"{file.stem}.py"}
    return sorted(".".join(path.parts) for path in outermost | alone)


if __name__ == "__main__":
    for line in Path("requirements.txt").read_text(encoding="utf-8").splitlines():
        [name] = re.findall(r"^[\w.-]+", line)
        for module in modules(name):
            import_module(module)
