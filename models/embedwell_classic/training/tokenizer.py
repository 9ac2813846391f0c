"""Training of BPE, WordPiece and Unigram tokenizers with the library tokenizers."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from embedwell_models.errors import ModelError

Algorithm = Literal["bpe", "wordpiece", "unigram"]
ROLES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
"""Special tokens with the ids 0 to 4, by their names in transformers."""
_SPECIAL = [*ROLES.values()]
_MAX_ALPHABET = 1000  # characters of WordPiece; rarer characters are unknown


def train_tokenizer(
    texts: Iterable[str], algorithm: Algorithm, vocabulary: int, lower: bool = False
) -> Tokenizer:
    """Train a tokenizer of at most `vocabulary` tokens, with [CLS] and [SEP] around a text.

    BPE (Sennrich et al. 2016) is over bytes, as in GPT-2. WordPiece is as in BERT, and Unigram
    (Kudo 2018) as in SentencePiece. Only BPE is deterministic: the library breaks ties of the
    others at random. lower: whether texts are lowercased. Raises ModelError for a vocabulary that
    is too small for the characters of the texts.
    """
    tokenizer, trainer = _KINDS[algorithm](vocabulary, lower)
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except ModelError:
        raise
    except Exception as error:  # the library raises no narrower exception
        raise ModelError(_too_small(vocabulary, f"{error}; give a larger one")) from None
    size = tokenizer.get_vocab_size()
    if size > vocabulary:
        reason = f"special tokens and single characters are {size}; give more than that"
        raise ModelError(_too_small(vocabulary, reason))
    _add_special_tokens(tokenizer)
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    """Write tokenizer.json, with padding and truncation, and the file that transformers needs.

    max_length: in tokens.
    """
    from transformers import PreTrainedTokenizerFast

    tokenizer.enable_truncation(max_length)
    tokenizer.enable_padding(pad_id=0, pad_token=ROLES["pad_token"])
    wrap: Any = PreTrainedTokenizerFast
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    options = {"model_max_length": max_length, "model_input_names": inputs, **ROLES}
    wrap(tokenizer_object=tokenizer, **options).save_pretrained(folder)


def _bpe(vocabulary: int, lower: bool) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.BPE())
    steps: list[Any] = [normalizers.NFC(), *[normalizers.Lowercase()] * lower]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer
    return tokenizer, trainer(initial_alphabet=alphabet, **_common(vocabulary))


def _wordpiece(vocabulary: int, lower: bool) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.WordPiece(unk_token=ROLES["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer: Any = trainers.WordPieceTrainer
    return tokenizer, trainer(limit_alphabet=_MAX_ALPHABET, **_common(vocabulary))


def _unigram(vocabulary: int, lower: bool) -> tuple[Tokenizer, trainers.Trainer]:
    tokenizer = Tokenizer(models.Unigram())
    steps: list[Any] = [normalizers.NFKC(), *[normalizers.Lowercase()] * lower]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer: Any = trainers.UnigramTrainer
    return tokenizer, trainer(unk_token=ROLES["unk_token"], **_common(vocabulary))


_KINDS: Mapping[Algorithm, Callable[[int, bool], tuple[Tokenizer, trainers.Trainer]]] = {
    "bpe": _bpe,
    "wordpiece": _wordpiece,
    "unigram": _unigram,
}


def _common(vocabulary: int) -> dict[str, Any]:
    return {"vocab_size": vocabulary, "special_tokens": _SPECIAL, "show_progress": False}


def _add_special_tokens(tokenizer: Tokenizer) -> None:
    first, last = ROLES["cls_token"], ROLES["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(name, _SPECIAL.index(name)) for name in (first, last)],
    )


def _too_small(vocabulary: int, reason: str) -> str:
    return f"a vocabulary of {vocabulary} tokens is too small for the corpus: {reason}"
