"""The Rust tokenizer of a model's folder."""

import re
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models

from models.errors import ModelError

# Letters, signs and an unassigned character that hardly any vocabulary has.
_RARE = "ꙮ 𒀱 ⌘∰ \U000e0ff0"


def read(folder: Path) -> tokenizers.Tokenizer:
    """The tokenizer of a folder, without padding, truncation and dropout.

    Raises ModelError for files that cannot be read, or a tokenizer that some texts would break.
    """
    path = folder / "tokenizer.json"
    try:
        rust = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{path} cannot be read: {error}") from None
    _settle(rust)
    try:
        rust.encode(_RARE)
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer cannot read every text: {error}") from None
    return rust


def files(folder: Path) -> list[Path]:
    """The files that decide which ids a text gets."""
    return [folder / "tokenizer.json"]


def _settle(rust: tokenizers.Tokenizer) -> None:
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
