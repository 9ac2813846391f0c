"""CANINE's tokenizer (arXiv 2103.06874), whose ids are the code points of characters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer, pre_tokenizers

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import tokenizer_kind
from embedwell_models.tokenizer.loading.loader import LoadedTokenizer
from embedwell_models.tokenizer.loading.tokenizer_config import AddedTokens
from embedwell_models.tokenizer.python_tokenizers import PythonTokenizer, WordEncoding
from embedwell_models.tokenizer.tokens import read_side

# CANINE's special tokens; all but the first are in Unicode's private use area.
_PAD, _CLS, _SEP, _MASK = 0, 0xE000, 0xE001, 0xE003
CODE_POINTS = 0x110000
"""Number of Unicode code points, each of which is a token."""
CODE_POINT_ROLES: Mapping[str, str] = {
    **{"bos": chr(_CLS), "eos": chr(_SEP), "sep": chr(_SEP)},
    **{"pad": chr(_PAD), "cls": chr(_CLS), "mask": chr(_MASK)},
}
"""Role -> CANINE's special token."""
_SPECIAL_NAMES: Mapping[int, str] = {_PAD: "[PAD]", _CLS: "[CLS]", _SEP: "[SEP]", _MASK: "[MASK]"}
_BEFORE_MASK = re.compile(rf"\s+(?={chr(_MASK)})")


def load(folder: Path, lowercase: bool, special_tokens: bool) -> LoadedTokenizer:
    """Load the tokenizer of a folder; raises ModelError."""
    tokenizer_kind.read_name(folder)  # raises ModelError for remote code
    if lowercase:
        raise ModelError(f"{folder}: do_lower_case is not supported with CanineTokenizer")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    tokens = AddedTokens(folder, {}).special
    for role, token in tokens.items():
        if token.content != CODE_POINT_ROLES.get(role):
            raise ModelError(
                f"{folder}: {role}_token = {token.content!r} is not supported: it is not CANINE's"
            )
    mask = tokens.get("mask")
    strips_mask = mask is not None and mask.lstrip
    tokenizer = cast(Tokenizer, CodePointTokenizer(special_tokens, strips_mask))
    return LoadedTokenizer(tokenizer, read_side(options) or "right", CODE_POINT_ROLES)


@dataclass(frozen=True, slots=True)
class EnclosedEncoding(WordEncoding):
    """Ids of a text between two special tokens."""

    @property
    def special_tokens_mask(self) -> list[int]:
        """Ones for the first and the last token, else zeros."""
        return [1, *[0] * (len(self.ids) - 2), 1]


class CodePointTokenizer(PythonTokenizer):
    """CANINE's tokenizer (arXiv 2103.06874): tokens are characters, ids their code points."""

    pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # tells where a long text may be split

    def __init__(self, special_tokens: bool = True, strips_mask: bool = False) -> None:
        """special_tokens: whether special tokens are added around a text.

        strips_mask: whether spaces before a mask token are left out.
        """
        super().__init__(unknown="")
        self._special_tokens, self._strips_mask = special_tokens, strips_mask

    def get_vocab_size(self) -> int:
        """Return the number of code points."""
        return CODE_POINTS

    def id_to_token(self, id: int) -> str | None:
        """Return the character of a code point, or its name; None for other ids."""
        return _SPECIAL_NAMES.get(id) or chr(id) if 0 <= id < CODE_POINTS else None

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
        return EnclosedEncoding(
            [_CLS, *ids, _SEP],
            [_SPECIAL_NAMES[_CLS], *tokens, _SPECIAL_NAMES[_SEP]],
            [(0, 0), *offsets, (0, 0)],
        )

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the characters of rows of code points."""
        skipped = _SPECIAL_NAMES if skip_special_tokens else ()
        return ["".join(chr(id) for id in row if id not in skipped) for row in rows]
