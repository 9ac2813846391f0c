"""tokenizer.json, and what the files beside it say that goes before it."""

from pathlib import Path

from tokenizers import Tokenizer, processors

from models.tokenizer.vocabulary import classes
from models.tokenizer.vocabulary.added import Added
from models.tokenizer.vocabulary.origin import Origin


def read(folder: Path) -> Tokenizer:
    """The tokenizer of a folder's tokenizer.json, as the class that it names reads it.

    Raises ModelError for a class that is the repository's own code.
    """
    origin = Origin.read(folder)
    rust = _file(folder)
    added = Added(folder, rust.get_added_tokens_decoder())
    override = classes.find(origin.name)
    if override is not None:
        override(rust, added)
    added.add(rust)
    # The library's own classes go by the file alone.
    if origin.custom and added.options.get("add_eos_token"):
        _end(rust, added.name("eos"))
    return rust


def bare(folder: Path) -> Tokenizer:
    """The same of the file alone, without special tokens around a text."""
    rust = _file(folder)
    rust.post_processor = None
    return rust


def _file(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _end(rust: Tokenizer, eos: str) -> None:
    if rust.encode("").tokens[-1:] == [eos]:
        return
    around = processors.TemplateProcessing(
        single=["$A", eos], special_tokens=[(eos, rust.token_to_id(eos))]
    )
    own = [] if rust.post_processor is None else [rust.post_processor]
    rust.post_processor = processors.Sequence([*own, around])
