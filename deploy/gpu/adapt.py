"""Adapt a copy of the checkout to the packages of this machine, and print each change.

python -m deploy.gpu.adapt COPY WEIGHTS

COPY: the root of the copy. WEIGHTS: the float16 weights of the default model.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Collection, Iterator
from importlib.metadata import version
from pathlib import Path

SOURCES = Path("models/embedwell_models/hub/sources.py")
ATTENTION = Path("models/embedwell_models/torch_backend/flash_attention.py")
FAMILIES = Path("tests/models/families")
EVERY_FAMILY = FAMILIES / "every.py"
GQA_TORCH = (2, 12)
"""The first torch whose varlen_attn has the argument enable_gqa; older ones always share keys."""


class AdaptError(Exception):
    """The code that an adaptation replaces is not there: the adaptation must follow the code."""


def replace(path: Path, pattern: str, replacement: str) -> None:
    """Replace every match of a pattern in a file. Raises AdaptError if there is none."""
    text, count = re.subn(
        pattern, replacement, path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    if not count:
        raise AdaptError(f"{path} has no match for {pattern}")
    path.write_text(text, encoding="utf-8")


def accept_float16_weights(root: Path, digest: str) -> str:
    """Replace the SHA-256 that the default model's weights must have."""
    replace(root / SOURCES, r'("model.safetensors": )"\w{64}"', rf'\1"{digest}"')
    return "the default model has float16 weights"


def omit_gqa_argument(root: Path) -> str:
    """Remove an argument of varlen_attn that this torch does not have."""
    replace(root / ATTENTION, r"^ +enable_gqa=.*,\n", "")
    return f"torch {version('torch')} has no argument enable_gqa of varlen_attn"


def omit_families(root: Path, lacking: Collection[str]) -> str:
    """Leave model families out of the tests on a GPU. lacking: the names of their test modules."""
    replace(
        root / EVERY_FAMILY,
        r"for name in _TESTED\]$",
        f"for name in _TESTED if name not in {sorted(lacking)}]",
    )
    names = ", ".join(sorted(lacking))
    return f"transformers {version('transformers')} lacks classes of the families {names}"


def lacking_families(root: Path, classes: Collection[str]) -> list[str]:
    """Return the families whose tests import from transformers what is not among `classes`."""
    return [
        path.stem.removeprefix("test_")
        for path in sorted((root / FAMILIES).glob("test_*.py"))
        if not {*imported_classes(path)} <= {*classes}
    ]


def imported_classes(path: Path) -> Iterator[str]:
    """Yield the names that a module imports from transformers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "transformers":
            yield from (alias.name for alias in node.names)


def adapt(root: Path, weights: Path) -> Iterator[str]:
    """Adapt the copy in `root`; yield what is different. Raises AdaptError."""
    import transformers

    yield accept_float16_weights(root, hashlib.sha256(weights.read_bytes()).hexdigest())
    if tuple(int(part) for part in version("torch").split(".")[:2]) < GQA_TORCH:
        yield omit_gqa_argument(root)
    if lacking := lacking_families(root, dir(transformers)):
        yield omit_families(root, lacking)


def main() -> None:
    root, weights = map(Path, sys.argv[1:])
    try:
        for difference in adapt(root, weights):
            sys.stdout.write(f"adapted: {difference}\n")
    except AdaptError as error:
        sys.exit(f"NOT ADAPTED: {error}")


if __name__ == "__main__":
    main()
