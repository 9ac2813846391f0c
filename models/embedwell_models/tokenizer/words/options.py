"""Options of a tokenizer of words, and the files that hold them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.words.subwords import Subwords
from embedwell_models.tokenizer.words.vocabulary import NAMES, Vocabulary

MAPPED = "vocabulary.safetensors"
"""File with vocabulary and options, which `embedwell convert` writes."""
LISTED = "whitespacetokenizer_config.json"
"""File of sentence-transformers with the same content, read if the other file is missing."""
_METADATA = "options"


@dataclass(frozen=True)
class WordOptions:
    """Options of the look-up of words in a vocabulary.

    stop_words: words that are left out of every text. lowercase: whether texts are lowercased.
    exact: whether a word is looked up only as written, and not also without surrounding punctuation
    and in lower case. subwords: n-grams of words that the vocabulary lacks; None if these have no
    vector.
    """

    stop_words: frozenset[str] = frozenset()
    lowercase: bool = False
    exact: bool = False
    subwords: Subwords | None = None

    @classmethod
    def read(cls, folder: Path) -> "WordOptions":
        """Read the options of a folder; raises ModelError."""
        if not (folder / MAPPED).is_file():
            listed = JsonConfig(folder / LISTED)
            listed.refuse_unknown({"vocab", "stop_words", "do_lower_case"})
            return cls(
                frozenset(listed.get("stop_words", [])), bool(listed.get("do_lower_case", False))
            )
        metadata = safetensors_files.metadata(folder / MAPPED)
        try:
            options: dict[str, Any] = json.loads(metadata[_METADATA])
            subwords = options.pop("subwords")
            stop_words = frozenset(options.pop("stop_words"))
            return cls(stop_words, subwords=Subwords(**subwords) if subwords else None, **options)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{folder / MAPPED} has no valid options: {error!r}") from None

    def as_metadata(self) -> Mapping[str, str]:
        """Return the metadata of a file MAPPED."""
        return {_METADATA: json.dumps({**asdict(self), "stop_words": sorted(self.stop_words)})}


def is_word_tokenizer(folder: Path) -> bool:
    """Whether the tokenizer of a folder is a tokenizer of words."""
    return any((folder / name).is_file() for name in (MAPPED, LISTED))


def read_vocabulary(folder: Path) -> Vocabulary:
    """Map the vocabulary of a folder, or read its list of words; raises ModelError."""
    if not (folder / MAPPED).is_file():
        return Vocabulary.of(JsonConfig(folder / LISTED)["vocab"])
    arrays = safetensors_files.map_arrays(folder / MAPPED)
    if missing := {*NAMES} - {*arrays}:
        raise ModelError(f"{folder / MAPPED} lacks {sorted(missing)}")
    return Vocabulary({name: arrays[name] for name in NAMES})
