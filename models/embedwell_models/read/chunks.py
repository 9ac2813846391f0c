"""Late chunking: encode consecutive chunks of a text together, and pool each (arXiv 2409.04701)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from embedwell_models.errors import (
    InputError,
    PromptTooLongError,
    TooLongError,
    UnsplittableTextError,
)
from embedwell_models.read.inputs import InputRow, TokenIds
from embedwell_models.read.spans import SpanPooling, pool
from embedwell_models.read.windows import TokenCollector
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, remaining_slice
from embedwell_models.vectors import Floats


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """The chunks of a text as one row of token ids.

    ranges: start and stop of each chunk in the row.
    dropped: for each chunk, the number of tokens that were cut off.
    """

    row: InputRow
    ranges: list[tuple[int, int]]
    dropped: list[int]

    def chunk_inputs(self) -> list[InputRow]:
        """Return each chunk as a separate input."""
        ids = [self.row.ids[start:stop] for start, stop in self.ranges]
        return [InputRow(sizes, dropped) for sizes, dropped in zip(ids, self.dropped, strict=True)]

    def pool(self, states: Floats, method: SpanPooling) -> list[Floats | InputError]:
        """Pool hidden states (T, D) to a vector (D,) of each chunk, or its error if empty."""
        return [
            pool(states[start:stop], method) if start < stop else self._missing_vector(index)
            for index, (start, stop) in enumerate(self.ranges)
        ]

    def _missing_vector(self, index: int) -> InputError:
        if self.dropped[index]:
            return InputError(
                f"chunk {index} was cut off, because the model reads only {len(self.row.ids)} "
                "tokens; send fewer chunks together",
                code="chunk_cut_off",
                index=index,
            )
        return InputError(
            f"chunk {index} has no tokens; leave it out", code="empty_chunk", index=index
        )


class ChunkReader:
    """Concatenates the tokens of chunks to one row, with special tokens around them.

    Each chunk is tokenized separately, so that every token belongs to one chunk.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def read(self, texts: Sequence[str], prompt: str, side: Side | None) -> Steps[ChunkedDocument]:
        """Tokenize chunks in steps, and cut the row at `side`.

        Raises InputError for a chunk that cannot be split for tokenization, and, if `side` is None,
        for the first chunk that does not fit.
        """
        special_tokens = self._tokenizer.special_tokens
        try:
            first = yield from self._first_chunk(texts[0], prompt)
            head = [*special_tokens.prefix, *first.ids[: first.tokens_before_text]]
            room = self._tokenizer.max_length - len(head) - len(special_tokens.suffix)
            if room < 1:
                raise PromptTooLongError(self._tokenizer.max_length)
        except UnsplittableTextError as error:
            raise error.with_index(0) from None
        ids, total = [_as_array(first.ids[first.tokens_before_text :])], 0
        for index, text in enumerate(texts):
            if index:
                try:
                    ids.append(_as_array((yield from self._tokenizer.ids_without_special(text))))
                except UnsplittableTextError as error:
                    raise error.with_index(index) from None
            total += len(ids[-1])
            if side is None and total > room:
                raise _too_long(index, total, room)
        return self._cut(head, ids, room, side or "right")

    def _first_chunk(self, text: str, prompt: str) -> Steps[TokenCollector]:
        collector = TokenCollector()
        for tokens in self._tokenizer.id_chunks(text, prompt, special=False):
            collector.add(tokens)
            yield
        return collector

    def _cut(
        self, head: Sequence[int], ids: list[TokenIds], room: int, side: Side
    ) -> ChunkedDocument:
        body = np.concatenate(ids)
        remaining = remaining_slice(len(body), room, side)
        suffix = self._tokenizer.special_tokens.suffix
        parts = [_as_array(head), body[remaining], _as_array(suffix)]
        row = InputRow(np.concatenate(parts), max(len(body) - room, 0))
        borders = [
            len(head) + min(max(border - remaining.start, 0), room)
            for border in accumulate(map(len, ids), initial=0)
        ]
        ranges = list(pairwise(borders))
        dropped = [
            len(chunk) - (stop - start) for chunk, (start, stop) in zip(ids, ranges, strict=True)
        ]
        return ChunkedDocument(row, ranges, dropped)


def _as_array(ids: Sequence[int]) -> TokenIds:
    return np.array(ids, dtype=np.int32)


def _too_long(index: int, total: int, room: int) -> TooLongError:
    return TooLongError(
        f"with chunk {index} the text has {total} tokens, but the model reads {room} besides "
        "its special tokens; send fewer chunks together",
        index,
    )
