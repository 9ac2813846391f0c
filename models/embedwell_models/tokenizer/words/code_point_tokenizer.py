"""Tokenizer that splits texts into code points, for CANINE (arXiv 2103.06874)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import pre_tokenizers

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.words.python_tokenizer import PythonTokenizer, WordEncoding

PAD, CLS, SEP, MASK = 0, 0xE000, 0xE001, 0xE003
"""Special tokens; from CLS on they are in Unicode's private use area."""
SIZE = 0x110000
"""Number of Unicode code points, each of which is a token."""
MAX_LENGTH = 2048
"""Default maximum number of tokens of a text, as in transformers' class."""
ROLES: Mapping[str, int] = {
    **{"bos": CLS, "eos": SEP, "sep": SEP, "pad": PAD, "cls": CLS, "mask": MASK},
}
NAMES: Mapping[int, str] = {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]", MASK: "[MASK]"}
_BEFORE_MASK = re.compile(rf"\s+(?={chr(MASK)})")


@dataclass(frozen=True, slots=True)
class FramedEncoding(WordEncoding):
    """Ids of a text between two special tokens."""

    @property
    def special_tokens_mask(self) -> list[int]:
        """Ones for the first and the last token, else zeros."""
        return [1, *[0] * (len(self.ids) - 2), 1]


class CodePointTokenizer(PythonTokenizer):
    """Tokenizer whose tokens are single characters, with their code points as ids."""

    pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # tells where a long text may be split

    def __init__(self, special_tokens: bool = True, strips_mask: bool = False) -> None:
        """special_tokens: whether special tokens are added around a text.

        strips_mask: whether spaces before a mask token are left out.
        """
        super().__init__(unknown="")
        self._special_tokens, self._strips_mask = special_tokens, strips_mask

    def get_vocab_size(self) -> int:
        """Return the number of code points."""
        return SIZE

    def id_to_token(self, id: int) -> str | None:
        """Return the character of a code point, or its name; None for other ids."""
        return NAMES.get(id) or chr(id) if 0 <= id < SIZE else None

    def token_to_id(self, token: str) -> int | None:
        """Return the code point of a character; None for other tokens."""
        return ord(token) if len(token) == 1 else None

    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the code points of a text with their offsets."""
        ids, tokens = [*map(ord, text)], [*text]
        offsets = [(index, index + 1) for index in range(len(text))]
        for spaces in reversed([*_BEFORE_MASK.finditer(text)] if self._strips_mask else []):
            span = slice(*spaces.span())
            del ids[span], tokens[span], offsets[span]
        if not (add_special_tokens and self._special_tokens):
            return WordEncoding(ids, tokens, offsets)
        return FramedEncoding(
            [CLS, *ids, SEP], [NAMES[CLS], *tokens, NAMES[SEP]], [(0, 0), *offsets, (0, 0)]
        )

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the characters of rows of code points."""
        skipped = NAMES if skip_special_tokens else ()
        return ["".join(chr(id) for id in row if id not in skipped) for row in rows]


def is_code_point_tokenizer(folder: Path) -> bool:
    """Whether the tokens of a folder's model are code points, by its class or else its family."""
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    return (name or config.get("model_type", "")) in ("CanineTokenizer", "canine")
