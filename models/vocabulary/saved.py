"""tokenizer.json, and what the files beside it say that goes before it."""

from pathlib import Path

from tokenizers import Tokenizer

from models.vocabulary.added import Added
from models.vocabulary.origin import Origin


def read(folder: Path) -> Tokenizer:
    """The tokenizer of a folder's tokenizer.json, as the class that it names reads it."""
    recipe = Origin.read(folder).saved
    rust = _file(folder)
    added = Added(folder, {}, rust.get_added_tokens_decoder())
    if recipe is not None:
        recipe.override(rust, added)
    added.add(rust)
    return rust


def bare(folder: Path) -> Tokenizer:
    """The same of the file alone, without special tokens around a text."""
    rust = _file(folder)
    rust.post_processor = None
    return rust


def _file(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
