"""Inputs to rows of token ids: cut where they are too long, or refused, or in windows."""

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.errors import UnsplittableTextError
from models.sentence_transformers.sentence import SentenceConfig
from models.tokenizer.cooperative import Steps
from models.tokenizer.tokenizer import Ids, Side, Token, Tokenizer
from service.errors import BadRequest, ServiceError
from service.inputs.chunks import Chunks, Document
from service.inputs.options import Reading, Text
from service.inputs.overflow import Windows
from service.inputs.row import Row
from service.request.limits import no_room, unbroken


class Rows:
    """Reads inputs in steps, for texts may be long."""

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        *,
        table: int,
        shortest: int,
        max_tokens: int,
        auto_truncate: bool,
    ) -> None:
        """table: how many token ids the model has vectors of. max_tokens: of one request.

        shortest: the fewest tokens of a text.
        """
        self._tokenizer, self._sentence, self._shortest = tokenizer, sentence, shortest
        self._last = min(tokenizer.highest, table - 1)
        self._lacking = tokenizer.highest > self._last
        self._max_tokens, self._auto_truncate = max_tokens, auto_truncate
        self._windows = Windows(tokenizer, max_tokens)
        self._chunks = Chunks(tokenizer)

    def read(
        self, inputs: Sequence[Text], prompt: str, reading: Reading, first: int
    ) -> Steps[list[Row]]:
        """A row of each input. first: the index of the first one. Raises BadRequest, TooLarge."""
        try:
            return (yield from self._read(inputs, prompt, reading, first))
        except UnsplittableTextError as error:  # of a text that is long enough to be read alone
            raise unbroken(error, first) from None

    def attempt(
        self, inputs: Sequence[Text], prompt: str, reading: Reading, first: int
    ) -> Steps[list[Row | ServiceError]]:
        """The same, with what is wrong with an input in its place."""
        try:
            return [*(yield from self.read(inputs, prompt, reading, first))]
        except ServiceError as error:
            if len(inputs) == 1:
                return [error]
        found: list[Row | ServiceError] = []
        for index, item in enumerate(inputs, first):
            found += yield from self.attempt([item], prompt, reading, index)
        return found

    def describe(
        self, texts: Sequence[str], prompt: str, reading: Reading, first: int
    ) -> Steps[list[tuple[Row, list[Token]]]]:
        """The same as `read`, with the tokens of each row."""
        found, count = [], self._count(reading, 0)
        for index, text in enumerate(texts, first):
            described = self._tokenizer.described(text, prompt, self._side(reading), count)
            try:
                ids, tokens = yield from described
            except UnsplittableTextError as error:
                raise unbroken(error, index) from None
            found.append((self._row(index, ids, reading), tokens))
        return found

    def document(self, chunks: Sequence[str], prompt: str, reading: Reading) -> Steps[Document]:
        """Consecutive chunks of a text as one row; raises BadRequest."""
        side = self._side(reading) if self._may_cut(reading.truncate) else None
        found = yield from self._chunks.read(chunks, prompt, side)
        if self._lacking:
            for index, row in enumerate(found.rows()):
                self._held(row, index)
            self._held(found.row, 0)  # the prompt's token, if it is one
        return found

    def reach(self, reading: Reading) -> int:
        """Characters of a text that are read at most, as a rule."""
        whole = reading.windows or self._count(reading, 0)
        return sys.maxsize if whole else self._tokenizer.reach

    def check(self, ids: Sequence[int], index: int) -> None:
        """Raises BadRequest for a token id that the vocabulary or the model does not have."""
        wrong = next((i for i in ids if not 0 <= i <= self._last), None)
        if wrong is not None:
            raise BadRequest(
                f"token id {wrong} is not in the vocabulary (0 to {self._last})",
                code="unknown_token",
                index=index,
            )

    def _read(
        self, inputs: Sequence[Text], prompt: str, reading: Reading, first: int
    ) -> Steps[list[Row]]:
        texts = [prompt + item for item in inputs if isinstance(item, str)]
        skip, rows = self._sentence.skip(prompt, self._tokenizer), []
        side, count = self._side(reading), self._count(reading, skip)
        encoded = iter((yield from self._tokenizer.encoded(texts, side, count)))
        for index, item in enumerate(inputs, first):
            text = isinstance(item, str)
            ids = next(encoded) if isinstance(item, str) else self._given(index, item, side)
            if ids.dropped and reading.windows:
                rows.append((yield from self._windowed(index, item, prompt, skip)))
                continue
            if reading.length is not None:
                ids = self._shortened(ids, side, reading.length, skip)
            left = ids.left(skip, side) if text else 0
            rows.append(self._row(index, ids, reading, left))
        return rows

    def _shortened(self, ids: Ids, side: Side, most: int, skip: int) -> Ids:
        """At most so many ids, fewer than the model reads. skip: those that are not pooled."""
        if skip + len(self._tokenizer.suffix) >= most and side == "right":
            raise no_room(most)
        cut = self._tokenizer.cut(ids.ids, side, most)
        return Ids(cut.ids, ids.dropped + cut.dropped)

    def _count(self, reading: Reading, skip: int) -> float:
        """How many tokens of a long text are read to tell how many are cut off."""
        if reading.windows:
            return 0
        if not self._may_cut(reading.truncate):  # a refusal tells how long the text is
            return self._max_tokens
        if reading.count:
            return math.inf
        return self._tokenizer.enough(skip, self._side(reading))

    def _windowed(self, index: int, item: Text, prompt: str, skip: int) -> Steps[Row]:
        if isinstance(item, str):
            row = yield from self._windows.of_text(item, prompt, index)
            return self._held(replace(row, skip=skip), index)
        return self._windows.of_ids(item, index)

    def _given(self, index: int, ids: list[int], side: Side) -> Ids:
        # Ids are taken as they are: whoever sends them has added the special tokens.
        if not ids:
            raise BadRequest("an input has no token ids", code="no_input", index=index)
        self.check(ids, index)
        return self._tokenizer.cut(ids, side)

    def _row(self, index: int, row: Ids, reading: Reading, skip: int = 0) -> Row:
        if row.dropped and not self._may_cut(reading.truncate):
            raise self._too_long(index, len(row.ids) + row.dropped, len(row.ids))
        if len(row.ids) < self._shortest:
            raise BadRequest(
                f"input {index} has no tokens, and the model needs one",
                code="no_input",
                index=index,
            )
        return self._held(Row(np.array(row.ids, dtype=np.int32), row.dropped, skip), index)

    def _too_long(self, index: int, tokens: int, limit: int) -> BadRequest:
        most = self._max_tokens
        told = f"{tokens} tokens" if tokens <= most else f"more than {most} tokens"
        return BadRequest(
            # OpenAI's words, which clients look for.
            f"This model's maximum context length is {limit} tokens, however "
            f"you requested {told} in input {index}; shorten it, or have it truncated: on_overflow "
            "here, truncate or truncation in the words of others",
            code="input_too_long",
            index=index,
        )

    def _held(self, row: Row, index: int) -> Row:
        # Only some broken models have a tokenizer of more ids than their table has rows.
        if self._lacking and (beyond := row.ids[row.ids > self._last]).size:
            raise BadRequest(
                f"input {index}: the token {self._tokenizer.name(beyond[0])!r} has id {beyond[0]}, "
                f"the model's table ends at {self._last}",
                code="unknown_token",
                index=index,
            )
        return row

    def _side(self, reading: Reading) -> Side:
        return reading.side or self._tokenizer.side

    def _may_cut(self, truncate: bool | None) -> bool:
        return self._auto_truncate if truncate is None else truncate
