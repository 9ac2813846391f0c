"""Special tokens that a tokenizer adds around every text, and around and between two texts."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any, TypeVar

import tokenizers
from tokenizers import processors

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.rust_tokenizer import part_options
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, remaining_slice

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

    def surround(self, ids: Sequence[int]) -> bool:
        """Tell whether ids have all special tokens at their start and end."""
        return len(ids) >= len(self) and self.count_around(ids) == (
            len(self.prefix),
            len(self.suffix),
        )

    def join(self, first: Sequence[T], second: Sequence[T]) -> Sequence[T]:
        """Merge two token lists, which may be empty, between one pair of special tokens."""
        if not first or not second:
            return first or second
        return [*first[: len(first) - len(self.suffix)], *second[len(self.prefix) :]]

    def truncate(self, ids: Sequence[int], max_length: int, side: Side) -> TruncatedIds:
        """Truncate ids on a side; the special tokens around a text remain."""
        dropped = len(ids) - max_length
        if dropped <= 0:
            return TruncatedIds([*ids])
        return TruncatedIds(
            [ids[index] for index in self.truncated_indices(ids, max_length, side)], dropped
        )

    def truncated_indices(self, ids: Sequence[int], max_length: int, side: Side) -> list[int]:
        """Return the indices of the ids that remain after truncation, special tokens included."""
        before, after = self.count_around(ids)
        body = range(before, len(ids) - after)
        remaining = body[remaining_slice(len(body), max_length - before - after, side)]
        return [*range(before), *remaining, *range(len(ids) - after, len(ids))]

    def count_around(self, ids: Sequence[int]) -> tuple[int, int]:
        """Count the special tokens at the start and at the end of ids, which may lack them."""
        tail = len(ids) - len(self.suffix)
        before = len(self.prefix) if list(ids[: len(self.prefix)]) == self.prefix else 0
        return before, len(self.suffix) if list(ids[tail:]) == self.suffix else 0


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Special tokens before, between and after two texts, and the segments of the texts.

    Ids of the second segment are greater by a number, see embedwell_models.encoder.batch.
    first_offset, second_offset: this number for a text in the second segment, else 0.
    """

    before: list[int]
    between: list[int]
    after: list[int]
    first_offset: int
    second_offset: int

    @classmethod
    def detect(cls, rust: tokenizers.Tokenizer, segment_offset: int) -> "PairTemplate":
        """Find the special tokens that a tokenizer adds, and the segments in which it puts texts.

        segment_offset: number that is added to ids of the second segment; 0 if the model has a
        single segment. Raises ModelError for a segment that the model cannot have.
        """
        sample = sample_text(rust)
        encoding = rust.encode(sample, sample)
        _check_segments(rust, sample, encoding.type_ids, segment_offset)
        offsets = [segment * segment_offset for segment in encoding.type_ids]
        ids = [id + offset for id, offset in zip(encoding.ids, offsets, strict=True)]
        first, second = map(encoding.sequence_ids.index, (0, 1))
        before, between, after = _special_runs(ids, encoding.sequence_ids)
        return cls(before, between, after, offsets[first], offsets[second])

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """Add the special tokens around the ids of two texts."""
        a, b = self.first_offset, self.second_offset
        return [
            *self.before,
            *([id + a for id in first] if a else first),
            *self.between,
            *([id + b for id in second] if b else second),
            *self.after,
        ]


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


def append_eos(rust: tokenizers.Tokenizer, eos: str) -> None:
    """Add the end token after every text, unless it is there already."""
    if rust.encode("").tokens[-1:] == [eos]:
        return
    parts = part_options(rust.post_processor)
    # A second template would treat the special tokens around a text as further texts.
    if not parts or parts[-1]["type"] != "TemplateProcessing":
        parts += part_options(processors.TemplateProcessing(single=["$A"], special_tokens=[]))
    template = parts[-1]
    template["single"] = [*template["single"], _template_token(eos, template["single"][-1])]
    template["pair"] = _ended_pair(template["pair"], eos)
    template["special_tokens"][eos] = {"id": eos, "ids": [rust.token_to_id(eos)], "tokens": [eos]}
    ended = processors.Sequence([])
    ended.__setstate__(json.dumps({"type": "Sequence", "processors": parts}).encode())
    rust.post_processor = ended


def _ended_pair(parts: Sequence[dict[str, Any]], eos: str) -> list[dict[str, Any]]:
    """Add the end token after each text of a pair, as transformers 4 does."""
    ended = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        ended.append(part)
        is_first_text = part.get("Sequence", {}).get("id") == "A"
        if (is_first_text and not _names(following, eos)) or following is None:
            ended.append(_template_token(eos, part))
    return ended


def _template_token(token: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return a special token of a template, in the segment of the part before it."""
    (part,) = before.values()
    return {"SpecialToken": {"id": token, "type_id": part["type_id"]}}


def _names(part: dict[str, Any] | None, token: str) -> bool:
    return part is not None and part.get("SpecialToken", {}).get("id") == token


def _offset_steps(rust: tokenizers.Tokenizer) -> list[processors.ByteLevel]:
    # Post-processors that trim the offsets of tokens and add no tokens.
    names = ("add_prefix_space", "trim_offsets", "use_regex")
    return [
        processors.ByteLevel(**{name: step[name] for name in names})
        for step in part_options(rust.post_processor)
        if step["type"] == "ByteLevel"
    ]


def _check_segments(
    rust: tokenizers.Tokenizer, sample: str, segments: Sequence[int], segment_offset: int
) -> None:
    single = rust.encode(sample).type_ids
    if segment_offset and (max(segments) > 1 or any(single)):
        raise ModelError(
            f"the post-processor in tokenizer.json puts a text into the segments {single} and a "
            f"pair into {list(segments)}; supported: 0 for a single text, 0 and 1 for a pair"
        )


def _special_runs(ids: Sequence[int], sequence_ids: Sequence[int | None]) -> Iterator[list[int]]:
    # Special tokens before, between and after the two texts.
    texts = [index for index, sequence in enumerate(sequence_ids) if sequence is not None]
    second = sequence_ids.index(1)
    first_end = max(index for index in texts if sequence_ids[index] == 0) + 1
    for start, end in ((0, texts[0]), (first_end, second), (texts[-1] + 1, len(ids))):
        yield list(ids[start:end])
