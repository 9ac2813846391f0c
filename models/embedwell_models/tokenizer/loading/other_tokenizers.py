"""Tokenizers that are not in a tokenizer.json: how a folder is recognised, and who loads it."""

from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

MAPPED = "vocabulary.safetensors"
"""File with a vocabulary of words and its options, which `embedwell convert` writes."""
LISTED = "whitespacetokenizer_config.json"
"""File of sentence-transformers with the same content, read if the other file is missing."""
CHARACTER_FILE = "character_tokenizer.json"
"""Options of a tokenizer whose ids are the bytes of words."""


@dataclass(frozen=True, kw_only=True)
class OtherTokenizer:
    """A kind of tokenizer without tokenizer.json.

    load: loader "module:function" of a `LoadedTokenizer`, imported for a folder of this kind. Its
    arguments are the folder, whether texts are lowercased, and whether special tokens are added.
    files: files that determine the ids; a folder with one of them is of this kind. names: values
    of tokenizer_class, or else of model_type, of its other folders. max_tokens: default maximum of
    tokens of a text; None for the model's.
    """

    load: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    max_tokens: int | None = None


KINDS = (
    OtherTokenizer(load="embedwell_classic.tokenizers.words:load", files=(MAPPED, LISTED)),
    OtherTokenizer(load="embedwell_classic.tokenizers.characters:load", files=(CHARACTER_FILE,)),
    OtherTokenizer(
        load="embedwell_classic.tokenizers.code_points:load",
        names=("CanineTokenizer", "canine"),
        max_tokens=2048,  # as in transformers' class
    ),
)
FILES = tuple(name for kind in KINDS for name in kind.files)


def find(folder: Path) -> OtherTokenizer | None:
    """Return the kind of a folder's tokenizer; None for one in a tokenizer.json."""
    for kind in KINDS:
        if any((folder / name).is_file() for name in kind.files):
            return kind
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    name = name or config.get("model_type", "")
    return next((kind for kind in KINDS if name in kind.names), None)
