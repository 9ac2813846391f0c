"""Conversion of SentencePiece files and older vocabularies to tokenizer.json.

transformers converts them. The normalisation of characters is that of the SentencePiece file, which
transformers keeps only in part. The result is compared with transformers' own tokenizer and with
SentencePiece.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, pre_tokenizers, processors
from tokenizers import Tokenizer as Rust
from tokenizers.models import BPE, WordLevel

from embedwell_classic.convert.sentencepiece_model import (
    SentencePieceModel,
    refuse_other_pieces,
    warn_of_variants,
)
from embedwell_models.config import other_files
from embedwell_models.errors import ModelError
from embedwell_models.precision.references import SENTENCES
from embedwell_models.tokenizer.loading import loader
from embedwell_models.tokenizer.loading.tokenizer_kind import TOKEN_FILES
from embedwell_models.tokenizer.tokenizer import Tokenizer

REPLACED = (*loader.OLDER_FILES, *TOKEN_FILES, "entity_vocab.json")
"""Files that are replaced by tokenizer.json and a new tokenizer_config.json."""
_NO_LIMIT = 1 << 20  # tokens
_UNPRINTABLE = [*range(33), *range(127, 161), 173]
"""Bytes that GPT-2's alphabet maps to the characters from 256 on, in this order."""


def convert(source: Path, target: Path) -> None:
    """Convert the tokenizer of a folder: write tokenizer.json and tokenizer_config.json to another.

    Raises ModelError for files that transformers cannot read, for a tokenizer that exists only in
    Python or in the model's own code, and if tokenizer.json splits a text differently.
    """
    original = _load(source)
    write_anew = _WRITTEN_ANEW.get(type(original).__name__)
    fast = write_anew(original) if write_anew else original
    if not getattr(fast, "is_fast", False):
        raise ModelError(f"{source}: {type(original).__name__} cannot be written as tokenizer.json")
    for path in sorted(source.glob("*.model")):
        model, rust = SentencePieceModel.read(path), fast.backend_tokenizer
        refuse_other_pieces(path, model, rust)
        model.normalize_characters(rust)
        warn_of_variants(path, model, rust)
    try:
        fast.save_pretrained(target)
    except Exception as error:  # a part of the tokenizer is written in Python
        raise ModelError(f"{source}: its tokenizer cannot be written: {error}") from None
    ours = Tokenizer(target, _NO_LIMIT).encode(SENTENCES)
    if [row.ids for row in ours] != [original(text)["input_ids"] for text in SENTENCES]:
        raise ModelError(
            f"{source}: tokenizer.json would not split texts as {type(original).__name__} does"
        )


def _load(source: Path) -> Any:
    from transformers import AutoTokenizer

    for name in loader.OLDER_FILES:
        other_files.refuse_pointer(source / name)
    try:
        load: Any = AutoTokenizer.from_pretrained
        return load(source, use_fast=True, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers raises no narrower exception
        raise ModelError(f"{source}: its tokenizer cannot be read: {error}") from None


def _protein_tokenizer(original: Any) -> Any:
    # transformers has ESM's tokenizer only in Python: a token for the letter of each amino acid.
    rust = Rust(WordLevel(original.get_vocab(), unk_token=original.unk_token))
    letters = "|".join(re.escape(token) for token in original.get_vocab() if len(token) == 1)
    split = pre_tokenizers.Split(Regex(letters), "isolated")
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    rust.add_tokens([token for token in original.get_vocab() if len(token) > 1])
    rust.post_processor = processors.TemplateProcessing(
        single=f"{original.cls_token} $A {original.eos_token}",
        special_tokens=[
            (original.cls_token, original.cls_token_id),
            (original.eos_token, original.eos_token_id),
        ],
    )
    return _wrapped(rust, original, ("cls", "eos", "mask", "pad", "unk"))


def _byte_tokenizer(original: Any) -> Any:
    # transformers has ByT5's tokenizer only in Python: special tokens, then a token for each byte.
    added = sorted(original.added_tokens_decoder.items())
    special = {token.content: id for id, token in added}
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {char: original.offset + _byte_of_character(char) for char in alphabet}
    rust = Rust(BPE({**special, **vocabulary}, [], unk_token=original.unk_token))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    rust.decoder = decoders.ByteLevel()
    rust.add_special_tokens([token for _, token in added])
    end = original.eos_token
    rust.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, original.eos_token_id)]
    )
    return _wrapped(rust, original, ("eos", "pad", "unk"))


def _with_pairs_of_bert(original: Any) -> Any:
    # DeBERTa was trained with one separator in a pair, as transformers 4 has it; 5 puts two.
    cls, sep = original.cls_token, original.sep_token
    original.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, original.cls_token_id), (sep, original.sep_token_id)],
    )
    return original


def _wrapped(rust: Rust, original: Any, roles: Sequence[str]) -> Any:
    from transformers import PreTrainedTokenizerFast

    special = {f"{role}_token": getattr(original, f"{role}_token") for role in roles}
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=rust, model_max_length=original.model_max_length, **special)


def _byte_of_character(character: str) -> int:
    """Return the byte that a character of ByteLevel's alphabet encodes."""
    code_point = ord(character)
    return code_point if code_point < 256 else _UNPRINTABLE[code_point - 256]


_WRITTEN_ANEW = {
    "EsmTokenizer": _protein_tokenizer,
    "ByT5Tokenizer": _byte_tokenizer,
    "DebertaTokenizer": _with_pairs_of_bert,
}
"""Conversions of tokenizers that transformers has only in Python, or other than in training."""
