"""Loading and validation of the tokenizer of a folder."""

import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers

from embedwell_models import families
from embedwell_models.config import other_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.family import Family
from embedwell_models.tokenizer.loading import tokenizer_config, tokenizer_kind
from embedwell_models.tokenizer.loading.tokenizer_config import AddedTokens
from embedwell_models.tokenizer.loading.tokenizer_kind import Reader, find_reader
from embedwell_models.tokenizer.rust_tokenizer import panics_as_model_errors
from embedwell_models.tokenizer.special_tokens import append_eos
from embedwell_models.tokenizer.tokens import Side, read_side

OLDER_FILES = (
    *("vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model"),
)
"""Vocabularies and SentencePiece files that `convert` converts to tokenizer.json."""

# Letters, punctuation, and an unassigned character that is in hardly any vocabulary.
_RARE = "ꙮ 𒀱 ⌘∰ \U000e0ff0"


@dataclass(frozen=True)
class LoadedTokenizer:
    """rust: tokenizer without padding, truncation and dropout. side: side of truncation.

    special: role (bos, eos, unk, sep, pad, cls, mask) -> token, for the roles in the files.
    splits_at_spaces: whether a step in Python splits each word between spaces independently.
    """

    rust: Tokenizer
    side: Side
    special: Mapping[str, str]
    splits_at_spaces: bool = False


LoadOther = Callable[[Path, bool, bool], LoadedTokenizer]
"""Loads a tokenizer that is not in a tokenizer.json: see `OtherTokenizer`."""


def load(
    folder: Path,
    file_only: bool = False,
    lowercase: bool = False,
    special_tokens: bool = True,
    *,
    compose: bool = False,
) -> LoadedTokenizer:
    """Load tokenizer.json with the options in the files next to it.

    file_only: ignore those files, and add no special tokens. lowercase: lowercase texts first.
    special_tokens: whether special tokens are added around a text. compose: compose letters and
    their marks first.

    Raises ModelError for files that cannot be read and for a tokenizer that fails on some texts.
    """
    with panics_as_model_errors(folder):
        loaded = _load(folder, file_only, lowercase, special_tokens)
        if compose:
            _compose_letters(folder, loaded.rust)
        return loaded


def register_markers(rust: Tokenizer, markers: Sequence[str]) -> None:
    """Make markers at the start of a text special tokens, if the vocabulary contains them.

    sentence-transformers does this for ColBERT, whose markers would otherwise be split. markers:
    prompts that begin with a marker, or are a marker followed by a space.
    """
    for prompt in markers:
        names = (prompt, *prompt.split(maxsplit=1)[:1]) if prompt.strip() else ()
        known = next((name for name in names if rust.token_to_id(name) is not None), None)
        if known and rust.encode(known, add_special_tokens=False).tokens != [known]:
            rust.add_special_tokens([AddedToken(known, normalized=False, special=True)])


def _load(folder: Path, file_only: bool, lowercase: bool, special_tokens: bool) -> LoadedTokenizer:
    if other := tokenizer_kind.find(folder):
        load_other: LoadOther = pkgutil.resolve_name(other.load)
        return load_other(folder, lowercase, special_tokens)
    reader = None if file_only else find_reader(folder)
    rust = _read(folder, reader, file_only)
    if file_only or not special_tokens:
        rust.post_processor = None
    default: Side = rust.truncation["direction"] if rust.truncation else "right"
    side = read_side(JsonConfig.optional(folder / "tokenizer_config.json")) or default
    _disable_batch_options(rust)
    _fix_decoder(rust)
    try:
        rust.encode(_RARE)
    except Exception as error:
        raise ModelError(f"{folder}: its tokenizer cannot read every text: {error}") from None
    if lowercase:
        _lowercase_first(rust)
    return LoadedTokenizer(
        *(rust, side, {} if file_only else _special(folder, reader)),
        splits_at_spaces=bool(reader and reader.splits_at_spaces),
    )


def _read(folder: Path, reader: Reader | None, file_only: bool) -> Tokenizer:
    if not (reader or (folder / "tokenizer.json").exists()):
        raise ModelError(_missing(folder))
    try:
        return _from_file(folder) if file_only else _read_with_options(folder, reader)
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # the library raises no narrower exception
        problem = other_files.json_problem(folder / "tokenizer.json") if reader is None else ""
        message = f"tokenizer.json {problem or f'cannot be read: {error}'}"
        raise ModelError(f"{folder}: {message}") from None


def _read_with_options(folder: Path, reader: Reader | None) -> Tokenizer:
    """Read a folder's tokenizer like transformers, by the tokenizer class that its files name.

    Raises ModelError for a class in remote code, and for options that contradict tokenizer.json.
    """
    name = tokenizer_kind.read_name(folder)
    override = tokenizer_config.override(name) or tokenizer_config.override_of(
        _family(folder), name
    )
    rust = reader.read(folder, _special(folder, reader)) if reader else _from_file(folder)
    added = AddedTokens(folder, rust.get_added_tokens_decoder())
    if override is not None:
        override(rust, added)
    if tokenizer_config.lowercases(folder, name):
        _lowercase_first(rust)
    if reader is None:
        tokenizer_config.refuse_contradictions(rust, added, name)
    added.add(rust)
    if _adds_eos(folder, added):
        append_eos(rust, added.name("eos"))
    tokenizer_config.warn_of_special_tokens(folder, rust, added)
    return rust


def _from_file(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    other_files.check_readable(path)
    return Tokenizer.from_file(str(path))


def _special(folder: Path, reader: Reader | None) -> dict[str, str]:
    """Return role -> special token, for the roles in a folder's files or tokenizer class."""
    return {**(reader.special if reader else {}), **tokenizer_config.by_role(folder)}


def _adds_eos(folder: Path, added: AddedTokens) -> bool:
    # transformers 4 and the models' authors follow add_eos_token; transformers 5 ignores it.
    family = _family(folder)
    return bool(added.options.get("add_eos_token")) or (family is not None and family.ends_texts)


def _family(folder: Path) -> Family | None:
    model_type = JsonConfig.optional(folder / "config.json").get("model_type", "")
    return families.of_model_type(model_type)


def _lowercase_first(rust: Tokenizer) -> None:
    """Lowercase texts before the other steps of the normalizer."""
    further = [] if rust.normalizer is None else [rust.normalizer]
    rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *further])


def _compose_letters(folder: Path, tokenizer: object) -> None:
    """Normalise texts to NFC before the other steps of the normalizer.

    Also after a table of characters, which makes a letter and a mark of half-width kana.
    """
    if not isinstance(tokenizer, Tokenizer):  # one in Python
        raise ModelError(
            f"{folder}: unicode_normalization = nfc is not supported with this tokenizer; "
            "normalise the texts before you send them"
        )
    compose = normalizers.NFC()
    steps: list[normalizers.Normalizer] = [compose]
    for step in _flat(tokenizer.normalizer):
        steps += [step, compose] if isinstance(step, normalizers.Precompiled) else [step]
    tokenizer.normalizer = normalizers.Sequence(steps)


def _flat(normalizer: Any) -> Iterator[normalizers.Normalizer]:
    if isinstance(normalizer, normalizers.Sequence):
        for step in cast(Iterable[Any], normalizer):  # its type lacks __iter__
            yield from _flat(step)
    elif normalizer is not None:
        yield normalizer


def _missing(folder: Path) -> str:
    older = [path.name for name in OLDER_FILES if (path := folder / name).exists()]
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    if options.get("tokenizer_class") == "ByT5Tokenizer":  # its vocabulary is the bytes
        older = ["tokenizer_config.json"]
    if not older:
        return f"{folder} has no tokenizer.json"
    return (
        f"{folder} has no tokenizer.json: `embedwell convert MODEL` makes one of "
        f"{' and '.join(older)}, once"
    )


def _disable_batch_options(rust: Tokenizer) -> None:
    rust.no_padding()
    rust.no_truncation()
    if isinstance(rust.model, models.BPE):
        rust.model.dropout = None


def _fix_decoder(rust: Tokenizer) -> None:
    # The decoder in CLIP's tokenizer.json leaves the end-of-word suffix in the text.
    suffix = rust.model.end_of_word_suffix if isinstance(rust.model, models.BPE) else None
    if suffix:
        steps = [] if rust.decoder is None else [rust.decoder]
        last = Regex(re.escape(suffix) + "$")
        steps += [decoders.Fuse(), decoders.Replace(last, ""), decoders.Replace(suffix, " ")]
        rust.decoder = decoders.Sequence(steps)
