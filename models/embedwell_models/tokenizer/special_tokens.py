"""Special tokens that a tokenizer adds around every text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeVar

import tokenizers
from tokenizers import processors

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.truncation import Side

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the special tokens before (prefix) and after (suffix) a text."""

    prefix: list[int]
    suffix: list[int]

    @classmethod
    def detect(cls, rust: tokenizers.Tokenizer) -> "SpecialTokens":
        """Find the special tokens that a tokenizer adds around a sample with other tokens."""
        encoding = rust.encode(sample_text(rust))
        pairs = list(zip(encoding.ids, encoding.special_tokens_mask, strict=True))
        if all(special for _, special in pairs):
            return cls([], [])
        prefix = [id for id, _ in takewhile(lambda pair: pair[1], pairs)]
        suffix = [id for id, _ in takewhile(lambda pair: pair[1], reversed(pairs))]
        return cls(prefix, suffix[::-1])

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def strip(self, tokens: Sequence[T]) -> Sequence[T]:
        """Remove the special tokens from both ends."""
        return tokens[len(self.prefix) : len(tokens) - len(self.suffix)]

    def join(self, first: list[T], second: list[T]) -> list[T]:
        """Merge two token lists, which may be empty, between one pair of special tokens."""
        if not first or not second:
            return first or second
        return [*first[: len(first) - len(self.suffix)], *second[len(self.prefix) :]]

    def truncated_indices(self, ids: Sequence[int], max_length: int, side: Side) -> list[int]:
        """Return the indices of the ids that remain after truncation, special tokens included."""
        before = len(self.prefix) if list(ids[: len(self.prefix)]) == self.prefix else 0
        tail = len(ids) - len(self.suffix)
        after = len(ids) - tail if list(ids[tail:]) == self.suffix else 0
        body = range(before, len(ids) - after)
        room = max_length - before - after
        remaining = body[:room] if side == "right" else body[max(len(body) - room, 0) :]
        return [*range(before), *remaining, *range(len(ids) - after, len(ids))]


def sample_text(rust: tokenizers.Tokenizer) -> str:
    """Return a text that has tokens besides special tokens; "" if there is none."""
    # A vocabulary without letters has no token for "a", and its normalizer may remove others.
    for text in chain(["a"], map(rust.id_to_token, range(rust.get_vocab_size()))):
        if not all(rust.encode(text or "").special_tokens_mask):
            return text or ""
    return ""


def append_text(rust: tokenizers.Tokenizer, text: str) -> None:
    """Add the tokens of a text as special tokens after every text, before its other end tokens.

    Raises ModelError unless the first of these tokens is an added token, which ends any text before
    it.
    """
    encoding, special = rust.encode(text, add_special_tokens=False), SpecialTokens.detect(rust)
    first = rust.get_added_tokens_decoder().get(next(iter(encoding.ids), -1))
    if first is None or first.lstrip or first.single_word or special.prefix:
        raise ModelError(
            f"the chat template ends with {text!r}, which the tokenizer does not tell from a text "
            "before it, or it puts a special token before that"
        )
    ids = [*encoding.ids, *special.suffix]
    end = {"id": "end", "ids": ids, "tokens": [rust.id_to_token(id) for id in ids]}
    template = processors.TemplateProcessing(single="$A end", special_tokens=[end])
    rust.post_processor = processors.Sequence([*_offset_steps(rust), template])


def _offset_steps(rust: tokenizers.Tokenizer) -> list[processors.ByteLevel]:
    # Post-processors that trim the offsets of tokens and add no tokens.
    if rust.post_processor is None:
        return []
    state = json.loads(rust.post_processor.__getstate__())
    names = ("add_prefix_space", "trim_offsets", "use_regex")
    return [
        processors.ByteLevel(**{name: step[name] for name in names})
        for step in state.get("processors", [state])
        if step["type"] == "ByteLevel"
    ]
