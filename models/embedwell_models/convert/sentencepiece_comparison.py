"""Comparison of a converted tokenizer with SentencePiece."""

import logging
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer

from embedwell_models.convert.sentencepiece_model import SentencePieceModel
from embedwell_models.errors import ModelError

_PLAIN_TEXT = "the first word of this text and the last one of it"  # no normaliser changes it


def _decomposed(text: str) -> tuple[str, str]:
    return unicodedata.normalize("NFD", text), text


VARIANTS = {
    "decomposed Korean": _decomposed("한국어 문장을 읽습니다"),
    "decomposed Vietnamese": _decomposed("tiếng việt là ngôn ngữ của người việt"),
    "decomposed Japanese": _decomposed("がぎぐげご パピプペポ"),
    "half-width kana": ("ｶﾞｷﾞ ﾊﾟ", "ガギ パ"),
    "full-width letters": ("ｔｈｅ\u3000ｗｏｒｄ", "the word"),
    "ligatures": ("the ﬁrst oﬀer", "the first offer"),
    "circled digits": ("① ②", "1 2"),
    "no-break spaces": ("the\u00a0word", "the word"),
    "zero-width characters": ("the\u200bword of\ufeffit", "the word of it"),
    "tabs and newlines": ("the\tword\nof it", "the word of it"),
    "several spaces": ("the   word  of it", "the word of it"),
    "outer spaces": ("  the word ", "the word"),
}
"""Kinds of texts, each with a plain text that most SentencePiece files read as the same."""

log = logging.getLogger(__name__)


def refuse_other_pieces(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    """Raise ModelError if a tokenizer splits a plain text otherwise than SentencePiece.

    transformers misreads some files, such as Llama's without a tokenizer_class.
    """
    expected = model.pieces(_PLAIN_TEXT)
    tokens = model.names(rust.encode(_PLAIN_TEXT, add_special_tokens=False).tokens)
    if tokens != expected:
        raise ModelError(
            f"{path}: transformers splits a text into {tokens[:4]}, SentencePiece into "
            f"{expected[:4]}: name the tokenizer_class in tokenizer_config.json, or add a "
            "tokenizer.json"
        )


def warn_of_variants(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    """Log the kinds of texts that SentencePiece reads as plain text, but a tokenizer does not."""
    kinds = [kind for kind, texts in VARIANTS.items() if _only_ours_differ(model, rust, *texts)]
    if kinds:
        log.warning(
            "%s: SentencePiece reads %s like plain text, but tokenizer.json, which transformers "
            "made, does not: their vectors differ from those of plain text",
            *(path, ", ".join(kinds)),
        )


def _only_ours_differ(model: SentencePieceModel, rust: Tokenizer, text: str, plain: str) -> bool:
    ours, other = (rust.encode(each, add_special_tokens=False).ids for each in (text, plain))
    return model.pieces(text) == model.pieces(plain) and ours != other
