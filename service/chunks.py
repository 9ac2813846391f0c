"""Late chunking: consecutive chunks of a text, read together, pooled apart (arXiv 2409.04701)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from models.tokenizer import Side, Tokenizer
from models.vectors import Floats
from service.errors import BadRequest, ServiceError
from service.limits import no_room
from service.overflow import leading
from service.pools import Pool, pool
from service.row import Row


@dataclass(frozen=True, slots=True)
class Document:
    """Chunks in the one row that the model reads.

    places: where the tokens of each chunk start and stop in it. dropped: how many were cut off.
    """

    row: Row
    places: list[tuple[int, int]]
    dropped: list[int]

    def rows(self) -> list[Row]:
        """What was read of each chunk."""
        ids = [self.row.ids[start:stop] for start, stop in self.places]
        return [Row(kept, dropped) for kept, dropped in zip(ids, self.dropped, strict=True)]

    def pool(self, states: Floats, how: Pool) -> list[Floats | ServiceError]:
        """A vector for each chunk: (T, D) -> (D,) each, or why there is none."""
        return [
            pool(states[start:stop], how) if start < stop else self._lost(index)
            for index, (start, stop) in enumerate(self.places)
        ]

    def _lost(self, index: int) -> BadRequest:
        if self.dropped[index]:
            return BadRequest(
                f"chunk {index} lies beyond the {len(self.row.ids)} tokens that were read; "
                "send fewer chunks together",
                code="chunk_cut_off",
                index=index,
            )
        return BadRequest(f"chunk {index} has no tokens", code="empty_chunk", index=index)


class Chunks:
    """Lays the tokens of chunks one after another, in one frame.

    Each chunk is tokenised alone, so that a token belongs to one chunk and no words grow together.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def read(self, texts: Sequence[str], prompt: str, side: Side | None) -> Document:
        """A document cut at `side`; None: BadRequest names the first chunk that does not fit."""
        pieces = [self._tokenizer.tokens(text, special=False) for text in texts[1:]]
        first = self._tokenizer.tokens(texts[0], prompt, special=False)
        asked = leading(first)
        head = [*self._tokenizer.prefix, *(token.id for token in first[:asked])]
        ids = [[token.id for token in piece] for piece in (first[asked:], *pieces)]
        room = self._tokenizer.max_length - len(head) - len(self._tokenizer.suffix)
        if room < 1:
            raise no_room(self._tokenizer.max_length)
        if side is None:
            self._fit(ids, room)
        return self._cut(head, ids, room, side or "right")

    def _fit(self, ids: Sequence[Sequence[int]], room: int) -> None:
        for index, total in enumerate(accumulate(map(len, ids))):
            if total > room:
                raise BadRequest(
                    f"with chunk {index} the text has {total} tokens, the model reads {room} and "
                    "its frame; send fewer chunks together, or have it truncated",
                    code="input_too_long",
                    index=index,
                )

    def _cut(self, head: list[int], ids: list[list[int]], room: int, side: Side) -> Document:
        body = [id for piece in ids for id in piece]
        low = max(len(body) - room, 0) if side == "left" else 0
        whole = [*head, *body[low : low + room], *self._tokenizer.suffix]
        row = Row(np.array(whole, dtype=np.int32), max(len(body) - room, 0))
        borders = [
            len(head) + min(max(border - low, 0), room)
            for border in accumulate(map(len, ids), initial=0)
        ]
        places = list(pairwise(borders))
        kept = [stop - start for start, stop in places]
        return Document(row, places, [len(a) - b for a, b in zip(ids, kept, strict=True)])
