"""Token ids of pairs whose parts are tokenized one by one, as in FlagEmbedding."""

from collections.abc import Sequence
from copy import copy

from embedwell_models.errors import InstructionTooLongError, ModelError
from embedwell_models.tokenizer.formats import SeparateFormat
from embedwell_models.tokenizer.pairs import Pair
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, common_length, parts
from embedwell_prompts.pairs import cut_after, no_room, second_text


class SeparatePairTokenizer:
    """Tokenizer of pairs for a model whose parts are tokenized one by one, as in FlagEmbedding.

    A row of ids is the start token, the query, the separator, the document, the separator and the
    instruction. Two words of different parts never share a token, and a SentencePiece tokenizer may
    start each part with a space.

    FlagEmbedding's limit counts neither the instruction nor the separators: a query has at most
    three quarters of it, a document at most all of it, and the document is cut until the row has
    twice the end, a separator with the instruction, and the limit. So the limit is the maximum
    length less twice the end.
    """

    def __init__(self, tokenizer: Tokenizer, pair_format: SeparateFormat) -> None:
        """tokenizer: a tokenizer that adds no special tokens.

        Raises ModelError if there is no start token, or if the format leaves no room for a pair.
        """
        start = tokenizer.special_id("bos")
        if start is None:
            raise ModelError("the tokenizer has no bos_token, which begins each pair of the model")
        self._tokenizer, self._format, self._start = tokenizer, pair_format, start
        self._max_length = tokenizer.max_length
        self._query, self._document, self._separator = map(
            self._ids, (pair_format.query, pair_format.document, pair_format.separator)
        )
        self._use(pair_format.instruction)
        if self._max_length < self.min_length:
            raise no_room(tokenizer)

    @property
    def characters(self) -> int:
        """Number of characters that the format adds to each pair."""
        each = self._format
        texts = (each.query, each.document, each.separator, each.separator, self._instruction)
        return sum(map(len, texts))

    @property
    def min_length(self) -> int:
        """Minimum length of a pair that is cut: one token of each text, and the format's tokens."""
        return 2 * len(self._end) + 2 * max(len(self._query), len(self._document)) + 2

    def with_max_length(self, max_length: int) -> "SeparatePairTokenizer":
        """Return a tokenizer of shorter pairs. max_length: at most the model's."""
        tokenizer = copy(self)
        tokenizer._max_length = max_length
        return tokenizer

    def with_instruction(self, instruction: str) -> "SeparatePairTokenizer":
        """Return a tokenizer for pairs with an instruction in place of the format's.

        Raises InstructionTooLongError.
        """
        tokenizer = copy(self)
        tokenizer._use(instruction)
        if tokenizer._limit < self._limit // 2:
            raise InstructionTooLongError
        return tokenizer

    def encode(
        self,
        pairs: Sequence[Pair],
        side: Side | None = None,
        count_limit: float = 0,
        max_second: int | None = None,
    ) -> Steps[list[TruncatedIds]]:
        """Return the ids of each pair, in steps, see `PairEncoder`."""
        side = side or self._tokenizer.side
        queries = [self._format.query + query for query, _ in pairs]
        documents = [self._format.document + second_text(pair, at) for at, pair in enumerate(pairs)]
        texts = list(dict.fromkeys([*queries, *documents]))
        rows = yield from self._tokenizer.encode_in_steps(texts, "right", count_limit)
        row_of = dict(zip(texts, rows, strict=True))
        joined = []
        for query, document in zip(queries, documents, strict=True):
            first = yield from cut_after(
                self._tokenizer, self._query, query, row_of[query], self._limit * 3 // 4, side
            )
            room = self._document_room(first.ids)
            if max_second is not None:
                room = min(room, len(self._document) + max_second)
            second = yield from cut_after(
                self._tokenizer, self._document, document, row_of[document], room, side
            )
            joined.append(
                TruncatedIds(self._join(first.ids, second.ids), first.dropped + second.dropped)
            )
        return joined

    def windows(self, first: str, second: str, max_tokens: int) -> Steps[list[list[int]]]:
        """Split the document into parts that fit next to the query; see PairTokenizer.windows."""
        (row,) = yield from self._tokenizer.encode_in_steps([self._format.query + first], "right")
        query = row.ids[: max(self._limit // 2, 1)]
        limit = max_tokens + len(self._document)
        text = self._format.document + second
        ids = yield from self._tokenizer.ids_without_special(text, limit)
        start = ids[: common_length(self._document, ids)]
        ids = ids[len(start) :]
        size = max(self._document_room(query) - len(start), 1)
        return [self._join(query, [*start, *ids[part]]) for part in parts(len(ids), size)]

    @property
    def _limit(self) -> int:
        return max(self._max_length - 2 * len(self._end), 0)

    def _use(self, instruction: str) -> None:
        self._instruction = instruction
        self._end = [*self._separator, *self._ids(instruction)]

    def _ids(self, text: str) -> list[int]:
        return [*self._tokenizer.encode([text], "right")[0].ids]

    def _document_room(self, query: Sequence[int]) -> int:
        before = 1 + len(query) + len(self._separator)
        return max(min(self._limit, self._limit + len(self._end) - before), 0)

    def _join(self, query: Sequence[int], document: Sequence[int]) -> list[int]:
        return [self._start, *query, *self._separator, *document, *self._end]
