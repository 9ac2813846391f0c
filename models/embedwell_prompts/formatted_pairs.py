"""Token ids of a query and a document in the format of a language model, as one text."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedwell_models.tokenizer.formats import PairFormat, PromptSlot, Segments, around
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length, cut, parts
from embedwell_prompts.pairs import PairTokenizerWithFormat, second_text

_FILLERS = ("0", "1 2 3 4")  # texts with different ends


@dataclass(frozen=True)
class _Surroundings:
    """Ids before and after a document. text: the text of `before`; "" if the query was truncated.

    dropped: number of truncated tokens of the query.
    """

    before: list[int]
    after: list[int]
    text: str
    dropped: int


class FormattedPairTokenizer(PairTokenizerWithFormat):
    """Tokenizer of pairs for a model that reads them in a format.

    The text of a pair is tokenized as a whole. If it is too long, first the document and then the
    query is truncated, but never the text around them.
    """

    def __init__(self, tokenizer: Tokenizer, pair_format: PairFormat) -> None:
        """tokenizer: a tokenizer that adds no special tokens, because the format has them.

        Raises ModelError if the format leaves no room for a pair.
        """
        self._format = pair_format
        super().__init__(tokenizer)

    @property
    def characters(self) -> int:
        """Number of characters that the format adds to each pair."""
        return sum(len(segment) for segment in self._segments if isinstance(segment, str))

    def encode(
        self,
        pairs: Sequence[Pair],
        side: Side | None = None,
        count_limit: float = 0,
        max_second: int | None = None,
    ) -> Steps[list[TruncatedIds]]:
        """Return the ids of each pair, in steps, see `PairEncoder`."""
        side = side or self._tokenizer.side
        cleaned = [self._clean(pair, index) for index, pair in enumerate(pairs)]
        texts = [document.join(around(self._segments, query)) for query, document in cleaned]
        rows = yield from self._tokenizer.encode_in_steps(texts, "right", count_limit)
        for index, ((query, document), row) in enumerate(zip(cleaned, rows, strict=True)):
            too_long = row.dropped or len(row.ids) > self._max_length
            if too_long or max_second is not None:
                rows[index] = yield from self._cut(query, document, side, count_limit, max_second)
        return rows

    def windows(self, first: str, second: str, max_tokens: int) -> Steps[list[list[int]]]:
        """Split the document into parts that fit next to the query; see PairTokenizer.windows."""
        query, document = self._clean((first, second), 0)
        max_query = max(self._room // 2, 1)
        surroundings = yield from self._surroundings(query, "right", max_query)
        limit = max_tokens + len(surroundings.before)
        ids = yield from self._tokenizer.ids_without_special(surroundings.text + document, limit)
        before, ids = _split(surroundings, ids)
        size = max(self._max_length - len(before) - len(surroundings.after), 1)
        return [[*before, *ids[part], *surroundings.after] for part in parts(len(ids), size)]

    def _room_with(self, instruction: str | None) -> int:
        self._segments = self._format.segments(instruction)
        self._literals = {
            segment: self._ids(segment) for segment in self._segments if isinstance(segment, str)
        }
        taken = sum(len(self._literals[part]) for part in self._segments if isinstance(part, str))
        return self._max_length - taken

    def _clean(self, pair: Pair, index: int) -> tuple[str, str]:
        return self._format.clean(pair[0]), self._format.clean(second_text(pair, index))

    def _cut(
        self, query: str, document: str, side: Side, count_limit: float, max_second: int | None
    ) -> Steps[TruncatedIds]:
        surroundings = yield from self._surroundings(query, side, self._room)
        encode = self._tokenizer.encode_in_steps
        if side == "right":  # the text before the document influences its first tokens
            (row,) = yield from encode([surroundings.text + document], side, count_limit)
            before, ids = _split(surroundings, row.ids)
        else:
            (row,) = yield from encode([document], side, count_limit)
            before, ids = surroundings.before, row.ids
        room = max(self._max_length - len(before) - len(surroundings.after), 0)
        remaining = cut(ids, room if max_second is None else min(room, max_second), side)
        dropped = surroundings.dropped + row.dropped + len(ids) - len(remaining)
        return TruncatedIds([*before, *remaining, *surroundings.after], dropped)

    def _surroundings(self, query: str, side: Side, max_query: int) -> Steps[_Surroundings]:
        (row,) = yield from self._tokenizer.encode_in_steps([query], side)
        if not row.dropped and len(row.ids) <= max_query:
            text, text_after = around(self._segments, query)
            before, after = self._ids(text), self._last_ids(text_after)
            if len(before) + len(after) <= self._max_length:
                return _Surroundings(before, after, text, 0)
        remaining = cut(row.ids, max_query, side)
        index = self._segments.index(PromptSlot.DOCUMENT)
        before = self._ids_apart(self._segments[:index], remaining)
        after = self._ids_apart(self._segments[index + 1 :], remaining)
        return _Surroundings(before, after, "", row.dropped + len(row.ids) - len(remaining))

    def _ids_apart(self, segments: Segments, query: Sequence[int]) -> list[int]:
        ids: list[int] = []
        for segment in segments:
            ids += self._literals[segment] if isinstance(segment, str) else query
        return ids

    def _last_ids(self, text: str) -> list[int]:
        """Return the ids of a text that follows another text, such as the end after a document."""
        one, other = (self._ids(filler + text, "left")[::-1] for filler in _FILLERS)
        return one[: common_length(one, other)][::-1]


def _split(surroundings: _Surroundings, ids: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    # Ids before a document, and its ids: its first token may start in the text before it.
    if not surroundings.text:
        return surroundings.before, ids
    length = common_length(surroundings.before, ids)
    return ids[:length], ids[length:]
