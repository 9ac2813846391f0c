"""A small CANINE with random weights."""

from pathlib import Path

from tests.models.classic.cases import CANINE
from tests.models.families.checkpoint import write
from tests.models.families.files import edit


def write_canine(folder: Path) -> None:
    """Write the model without a tokenizer."""
    write(CANINE, folder)
    edit(folder, architectures=["CanineModel"])
