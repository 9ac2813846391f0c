"""Load tokenizer.json or a vocabulary, and apply the options of the JSON files beside it."""

from pathlib import Path

from tokenizers import Tokenizer, processors

from models.tokenizer.loading import added_tokens, class_overrides
from models.tokenizer.loading.added_tokens import AddedTokens
from models.tokenizer.loading.tokenizer_class import TokenizerClass
from models.tokenizer.segmented import readers


def load(folder: Path) -> Tokenizer:
    """Load a folder's tokenizer as transformers would, by the tokenizer class that it names.

    Raises ModelError for a class that is the repository's own code.
    """
    tokenizer_class = TokenizerClass.read(folder)
    reader = readers.find(folder)
    rust = reader.read(folder, special(folder)) if reader else _from_file(folder)
    added = AddedTokens(folder, rust.get_added_tokens_decoder())
    override = class_overrides.find(tokenizer_class.name)
    if override is not None:
        override(rust, added)
    added.add(rust)
    # The classes of transformers ignore add_eos_token, and use the file's template.
    if tokenizer_class.custom and added.options.get("add_eos_token"):
        _append_eos(rust, added.name("eos"))
    return rust


def special(folder: Path) -> dict[str, str]:
    """Return the special token of each role that a folder's files or its class name."""
    reader = readers.find(folder)
    return {**(reader.special if reader else {}), **added_tokens.by_role(folder)}


def load_file_only(folder: Path) -> Tokenizer:
    """Load tokenizer.json alone, without special tokens around a text."""
    rust = _from_file(folder)
    rust.post_processor = None
    return rust


def _from_file(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _append_eos(rust: Tokenizer, eos: str) -> None:
    if rust.encode("").tokens[-1:] == [eos]:
        return
    template = processors.TemplateProcessing(
        single=["$A", eos], special_tokens=[(eos, rust.token_to_id(eos))]
    )
    steps = [] if rust.post_processor is None else [rust.post_processor]
    rust.post_processor = processors.Sequence([*steps, template])
