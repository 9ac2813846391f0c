"""Special tokens that a tokenizer adds around and between the texts of a pair."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tokenizers


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Special tokens before, between and after two texts, and the start of the second segment.

    second_start: index in `between` of the first token of the second segment; the length of
    `between` if the second text starts this segment.
    """

    before: list[int]
    between: list[int]
    after: list[int]
    second_start: int

    @classmethod
    def detect(cls, rust: tokenizers.Tokenizer, sample: str) -> "PairTemplate":
        """Find the special tokens that a tokenizer adds. sample: a text with other tokens."""
        encoding = rust.encode(sample, sample)
        runs = list(_special_runs(encoding.ids, encoding.sequence_ids))
        (before, _), (between, start), (after, _) = runs
        types = encoding.type_ids[start : start + len(between)]
        return cls(before, between, after, types.index(1) if 1 in types else len(between))

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def join(
        self, first: Sequence[int], second: Sequence[int], second_offset: int = 0
    ) -> list[int]:
        """Add the special tokens around the ids of two texts.

        second_offset: number that is added to ids of the second segment, see
        embedwell_models.encoder.batch.
        """
        start = self.second_start
        second_segment = [*self.between[start:], *second, *self.after]
        return [
            *self.before,
            *first,
            *self.between[:start],
            *(id + second_offset for id in second_segment),
        ]


def _special_runs(
    ids: Sequence[int], sequence_ids: Sequence[int | None]
) -> Iterator[tuple[list[int], int]]:
    # Special tokens before, between and after the two texts, each group with its first index.
    texts = [index for index, sequence in enumerate(sequence_ids) if sequence is not None]
    second = sequence_ids.index(1)
    first_end = max(index for index in texts if sequence_ids[index] == 0) + 1
    for start, end in ((0, texts[0]), (first_end, second), (texts[-1] + 1, len(ids))):
        yield list(ids[start:end]), start
