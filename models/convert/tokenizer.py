"""Tokenizers of SentencePiece files and older vocabularies, as tokenizer.json.

transformers makes them; what it makes is compared with the file that it was made of.
"""

import re
from pathlib import Path
from typing import Any

from tokenizers import Regex, pre_tokenizers, processors
from tokenizers import Tokenizer as Rust
from tokenizers.models import WordLevel

from models.errors import ModelError
from models.precision.sentences import SENTENCES
from models.tokenizer.loading import added_tokens, loader
from models.tokenizer.tokenizer import Tokenizer

REPLACED = (*loader.OLDER_FILES, *added_tokens.FILES, "entity_vocab.json")
"""Files that tokenizer.json and a new tokenizer_config.json stand for."""
_PLAIN = "the first word of this text and the last one of it"  # no family normalises it
_ENDLESS = 1 << 20  # tokens
_ROLES = ("cls", "eos", "mask", "pad", "unk")


def convert(source: Path, target: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json of a folder's tokenizer to another folder.

    Raises ModelError for files that transformers cannot read, for a tokenizer that is code of the
    model or of Python, and where what is written would split a text otherwise.
    """
    made = _load(source)
    fast = _of_proteins(made) if type(made).__name__ == "EsmTokenizer" else made
    if not getattr(fast, "is_fast", False):
        raise ModelError(f"{source}: {type(made).__name__} cannot be written as tokenizer.json")
    try:
        fast.save_pretrained(target)
    except Exception as error:  # of a part that is written in Python
        raise ModelError(f"{source}: its tokenizer cannot be written: {error}") from None
    ours = Tokenizer(target, _ENDLESS).encode(SENTENCES)
    if [row.ids for row in ours] != [made(text)["input_ids"] for text in SENTENCES]:
        raise ModelError(
            f"{source}: tokenizer.json would not split texts as {type(made).__name__} does"
        )
    for path in source.glob("*.model"):
        _compare(path, made)


def _load(source: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        load: Any = AutoTokenizer.from_pretrained
        return load(source, use_fast=True, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{source}: its tokenizer cannot be read: {error}") from None


def _of_proteins(made: Any) -> Any:
    # transformers has this one in Python alone: a token for each letter that is an amino acid.
    from transformers import PreTrainedTokenizerFast

    rust = Rust(WordLevel(made.get_vocab(), unk_token=made.unk_token))
    letters = "|".join(re.escape(token) for token in made.get_vocab() if len(token) == 1)
    split = pre_tokenizers.Split(Regex(letters), "isolated")
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    rust.add_tokens([token for token in made.get_vocab() if len(token) > 1])
    rust.post_processor = processors.TemplateProcessing(
        single=f"{made.cls_token} $A {made.eos_token}",
        special_tokens=[
            (made.cls_token, made.cls_token_id),
            (made.eos_token, made.eos_token_id),
        ],
    )
    roles = {f"{role}_token": getattr(made, f"{role}_token") for role in _ROLES}
    wrap: Any = PreTrainedTokenizerFast
    return wrap(tokenizer_object=rust, model_max_length=made.model_max_length, **roles)


def _compare(path: Path, made: Any) -> None:
    # transformers reads some files otherwise than SentencePiece: Llama's without a class.
    from sentencepiece import SentencePieceProcessor

    file: Any = SentencePieceProcessor(model_file=str(path))
    expected = [file.id_to_piece(i) for i in file.encode(_PLAIN)]
    tokens = made.tokenize(_PLAIN)
    if tokens != expected:
        raise ModelError(
            f"{path}: transformers makes {tokens[:4]} of a text, SentencePiece {expected[:4]}: "
            "name the tokenizer_class in tokenizer_config.json, or add a tokenizer.json"
        )
