"""The Rust tokenizer of a model's folder, and the files that it is made of."""

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models

from models import truncation
from models.errors import ModelError
from models.raw import Raw
from models.truncation import Side
from models.vocabulary import added, saved
from models.vocabulary.origin import Origin
from models.vocabulary.recipes import Recipe, recipe

# Letters, signs and an unassigned character that hardly any vocabulary has.
_RARE = "ꙮ 𒀱 ⌘∰ \U000e0ff0"


@dataclass(frozen=True)
class Vocabulary:
    """rust: a tokenizer without padding, truncation and dropout. side: where it would cut."""

    rust: Tokenizer
    side: Side


def read(folder: Path, bare: bool = False) -> Vocabulary:
    """The tokenizer of a folder.

    It is tokenizer.json, as the files beside it change it, or else put together from the vocabulary
    files of a known family. bare: it is tokenizer.json alone, without special tokens around a text.
    Raises ModelError for files that cannot be read, or a tokenizer that some texts would break.
    """
    try:
        rust = _load(folder, bare)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the library raises nothing narrower
        names = " with ".join(path.name for path in _vocabulary(folder))
        raise ModelError(f"{folder}: {names} cannot be read: {error}") from None
    side = _side(folder, rust)
    _settle(rust)
    try:
        rust.encode(_RARE)
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer cannot read every text: {error}") from None
    return Vocabulary(rust, side)


def files(folder: Path) -> list[Path]:
    """The files that decide which ids a text gets."""
    beside = [path for name in added.FILES if (path := folder / name).exists()]
    return [*_vocabulary(folder), *beside]


def _vocabulary(folder: Path) -> list[Path]:
    path = folder / "tokenizer.json"
    return [path] if path.exists() else [folder / name for name in _recipe(folder).files]


def _load(folder: Path, bare: bool) -> Tokenizer:
    if not (folder / "tokenizer.json").exists():
        return _recipe(folder).make(folder)
    return saved.bare(folder) if bare else saved.read(folder)


def _recipe(folder: Path) -> Recipe:
    name = Origin.read(folder).family
    found = recipe(name)
    if found is None:
        raise ModelError(
            f"{folder} has no tokenizer.json, and how to make one from the other files of "
            f"{name!r} is not known: add a tokenizer.json"
        )
    missing = [name for name in found.files if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{folder} has neither tokenizer.json nor {' and '.join(missing)}")
    return found


def _side(folder: Path, rust: Tokenizer) -> Side:
    own: Side = (rust.truncation or {"direction": "right"})["direction"]
    return truncation.stated(Raw.optional(folder / "tokenizer_config.json")) or own


def _settle(rust: Tokenizer) -> None:
    rust.no_padding()
    rust.no_truncation()
    model = rust.model
    if not isinstance(model, models.BPE):
        return
    model.dropout = None
    if model.end_of_word_suffix:  # CLIP's file has a decoder that leaves the suffix in the text
        own = [] if rust.decoder is None else [rust.decoder]
        end = model.end_of_word_suffix
        last = Regex(re.escape(end) + "$")
        own += [decoders.Fuse(), decoders.Replace(last, ""), decoders.Replace(end, " ")]
        rust.decoder = decoders.Sequence(own)
