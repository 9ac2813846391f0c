"""Tokenizer of a query and a list of documents in a format, see `tokenizer.lists`."""

from collections.abc import Sequence

from embedwell_models.tokenizer.lists import ListwiseFormat
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, TruncatedIds, cut


class ListwiseTokenizer:
    """Tokenizer of lists for a model that reads them in a format."""

    def __init__(
        self, tokenizer: Tokenizer, listwise_format: ListwiseFormat, max_length: int
    ) -> None:
        """tokenizer: adds no special tokens, because the format has them.

        max_length: tokens of the texts of a block, with the query twice.
        """
        self._tokenizer, self.format, self._max_length = tokenizer, listwise_format, max_length

    def begin(
        self,
        query: str,
        instruction: str | None = None,
        max_document: int | None = None,
        side: Side | None = None,
    ) -> Steps["ListwiseBlocks"]:
        """Return the blocks of a query, see `tokenizer.lists.ListEncoder`."""
        text, row = yield from self.read(query, self.format.max_query, side)
        room, most = self._max_length - 2 * len(row.ids), self.format.max_document
        limit = most if max_document is None else min(max_document, most)
        return ListwiseBlocks(self, text, instruction, room, limit, side, row.dropped)

    def read(
        self, text: str, limit: int, side: Side | None, count_limit: float = 0
    ) -> Steps[tuple[str, TruncatedIds]]:
        """Return a text as far as a limit of tokens allows, and its ids.

        count_limit: see Tokenizer.encode.
        """
        side = side or self._tokenizer.side
        (row,) = yield from self._tokenizer.encode_in_steps([text], side, count_limit)
        ids = [*cut(row.ids, limit, side)]
        if len(ids) == limit:  # also if that is all of the text, as published
            (text,) = self._tokenizer.decode([ids], skip_special=False)
        return text, TruncatedIds(ids, row.dropped + len(row.ids) - len(ids))

    def block_ids(
        self, query: str, documents: Sequence[str], instruction: str | None
    ) -> Steps[Sequence[int]]:
        """Return the ids of a block."""
        text = self.format.text(query, documents, instruction)
        return (yield from self._tokenizer.ids_without_special(text))


class ListwiseBlocks:
    """The blocks of a list, see `tokenizer.lists.ListBlocks`."""

    def __init__(  # noqa: PLR0913, PLR0917 - called once
        self,
        tokenizer: ListwiseTokenizer,
        query: str,
        instruction: str | None,
        room: int,
        max_document: int,
        side: Side | None,
        query_dropped: int,
    ) -> None:
        """room: tokens of all documents of a block. max_document: tokens that one has at most."""
        self._tokenizer, self._query, self._instruction = tokenizer, query, instruction
        self._room, self._max_document, self._side = room, max_document, side
        self._block, self._free = list[str](), room
        self.query_dropped = query_dropped
        self.ids, self.sizes = list[Sequence[int]](), list[int]()

    def add(self, document: str, count_limit: float = 0) -> Steps[TruncatedIds]:
        """Add a document, and return its ids; the block ends if another might not fit."""
        text, row = yield from self._tokenizer.read(
            document, self._max_document, self._side, count_limit
        )
        yield
        self._block.append(text)
        self._free -= len(row.ids)
        is_full = len(self._block) >= self._tokenizer.format.max_documents
        if is_full or self._free <= self._max_document:
            yield from self.finish()
        return row

    def finish(self) -> Steps[None]:
        """End the last block."""
        if not self._block:
            return
        ids = yield from self._tokenizer.block_ids(self._query, self._block, self._instruction)
        self.ids.append(ids)
        self.sizes.append(len(self._block))
        self._block, self._free = [], self._room
