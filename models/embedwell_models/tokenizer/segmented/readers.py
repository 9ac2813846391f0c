"""Readers of this package's tokenizers by class, and detection of folders that need them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.loading.tokenizer_class import JAPANESE, read_name
from embedwell_models.tokenizer.segmented import japanese, phobert


@dataclass(frozen=True)
class Reader:
    """read: reads the tokenizer of a folder. special: role -> default token.

    files: files of the vocabulary. splits_at_spaces: whether each word between spaces is split
    independently.
    """

    read: Callable[[Path, Mapping[str, str]], Tokenizer]
    special: Mapping[str, str]
    files: tuple[str, ...]
    splits_at_spaces: bool


_READERS = {
    JAPANESE: Reader(
        japanese.read, japanese.SPECIAL, (japanese.VOCABULARY,), splits_at_spaces=False
    ),
    "PhobertTokenizer": Reader(
        phobert.read, phobert.SPECIAL, (phobert.VOCABULARY, phobert.CODES), splits_at_spaces=True
    ),
}


def find(folder: Path) -> Reader | None:
    """Return the reader of a folder's tokenizer; None if tokenizer.json holds the tokenizer.

    Raises ModelError for a tokenizer in remote code.
    """
    name = read_name(folder)
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    if name not in _READERS or (name == JAPANESE and _is_basic(options)):
        return None
    reader = _READERS[name]
    has_files = all((folder / file).is_file() for file in reader.files)
    return reader if has_files else None


def _is_basic(options: JsonConfig) -> bool:
    # Without MeCab, the class splits like BertTokenizer.
    return bool(options.get("word_tokenizer_type", "basic") == "basic")
