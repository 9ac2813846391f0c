"""The Rust tokenizer of a model's folder: tokenizer.json, and the files that change it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models

from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.tokenizer import truncation
from models.tokenizer.truncation import Side
from models.tokenizer.vocabulary import added, saved

OLDER = (
    *("vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model"),
)
"""Vocabularies and SentencePiece files, of which models.convert makes a tokenizer.json."""

# Letters, signs and an unassigned character that hardly any vocabulary has.
_RARE = "ꙮ 𒀱 ⌘∰ \U000e0ff0"


@dataclass(frozen=True)
class Vocabulary:
    """rust: a tokenizer without padding, truncation and dropout. side: where it would cut."""

    rust: Tokenizer
    side: Side


def read(folder: Path, bare: bool = False) -> Vocabulary:
    """The tokenizer of a folder.

    It is tokenizer.json, as the files beside it change it. bare: it is tokenizer.json alone,
    without special tokens around a text.
    Raises ModelError for files that cannot be read, or a tokenizer that some texts would break.
    """
    if not (folder / "tokenizer.json").exists():
        raise ModelError(_without_tokenizer(folder))
    try:
        rust = saved.bare(folder) if bare else saved.read(folder)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{folder}: tokenizer.json cannot be read: {error}") from None
    side = _side(folder, rust)
    _settle(rust)
    try:
        rust.encode(_RARE)
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer cannot read every text: {error}") from None
    return Vocabulary(rust, side)


def files(folder: Path) -> list[Path]:
    """The files that decide which ids a text gets."""
    names = ("tokenizer.json", *added.FILES)
    return [path for name in names if (path := folder / name).exists()]


def _without_tokenizer(folder: Path) -> str:
    older = [path.name for name in OLDER if (path := folder / name).exists()]
    if not older:
        return f"{folder} has no tokenizer.json"
    return (
        f"{folder} has no tokenizer.json: `embedding-service convert MODEL` makes one of "
        f"{' and '.join(older)}, once"
    )


def _side(folder: Path, rust: Tokenizer) -> Side:
    own: Side = (rust.truncation or {"direction": "right"})["direction"]
    return truncation.stated(JsonConfig.optional(folder / "tokenizer_config.json")) or own


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
