"""Adapt a copy of the checkout to the model of the kit.

python -m deploy.gpu.adapt COPY WEIGHTS

COPY: the root of the copy. WEIGHTS: the float16 weights of the default model.
"""

import hashlib
import re
import sys
from pathlib import Path

BUNDLES = Path("models/embedwell_models/hub/bundles.py")


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


def accept_float16_weights(root: Path, digest: str) -> None:
    """Replace the SHA-256 that the default model's weights must have."""
    replace(root / BUNDLES, r'("model.safetensors": )"\w{64}"', rf'\1"{digest}"')


def main() -> None:
    root, weights = map(Path, sys.argv[1:])
    try:
        accept_float16_weights(root, hashlib.sha256(weights.read_bytes()).hexdigest())
        sys.stdout.write("adapted: the default model has float16 weights\n")
    except AdaptError as error:
        sys.exit(f"NOT ADAPTED: {error}")


if __name__ == "__main__":
    main()
