"""Here text ends and token ids begin: tokenising, prompts, overflow and their limits."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from models.sentence import SentenceConfig
from models.tokenizer import Ids, Side, Token, Tokenizer
from service.call import Call
from service.chunks import Chunks, Document
from service.errors import BadRequest, ServiceError
from service.limits import check_texts, check_tokens
from service.overflow import Windows
from service.prompts import Prompt, Prompts, Role
from service.row import Row

LONG = 20_000  # characters; a longer batch is tokenised beside the event loop

Text = str | list[int]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read texts. truncate: None for the server's setting.

    side: where tokens are cut off, None: where the model's files say.
    windows: an input that is too long is not cut but read in windows. count: tell how many tokens
    were cut off, for which long texts are read to their end.
    """

    truncate: bool | None = None
    side: Side | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    role: Role | None = None
    windows: bool = False
    count: bool = False


class Reader:
    """Texts or token ids to rows of ids that the model can take."""

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        *,
        table: int,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
    ) -> None:
        """table: how many token ids the model has vectors of."""
        self.tokenizer, self.sentence = tokenizer, sentence
        self._last = min(tokenizer.highest, table - 1)
        self._lacking = tokenizer.highest > self._last
        self._max_texts, self._max_tokens = max_texts, max_tokens
        self._auto_truncate = auto_truncate
        self._prompts = Prompts(sentence)
        self._windows = Windows(tokenizer, max_tokens)
        self._chunks = Chunks(tokenizer)

    async def read(self, call: Call, inputs: Sequence[Text], reading: Reading) -> list[Row]:
        """Rows of each input, in order; raises BadRequest or TooLarge."""
        start = time.perf_counter()
        rows = await self._apart(self._rows, inputs, reading, sum(map(len, inputs)))
        self._account(call, len(rows), rows, start)
        return rows

    async def attempt(
        self, call: Call, inputs: Sequence[Text], reading: Reading
    ) -> list[Row | ServiceError]:
        """The same, with what is wrong with an input in its place."""
        start = time.perf_counter()
        found = await self._apart(self._attempts, inputs, reading, sum(map(len, inputs)))
        rows = [row for row in found if isinstance(row, Row)]
        self._account(call, len(rows), rows, start)
        return found

    async def describe(
        self, call: Call, texts: Sequence[str], reading: Reading
    ) -> tuple[list[Row], list[list[Token]]]:
        """The same of texts, and the tokens of each row, which take longer."""
        start = time.perf_counter()
        described = await self._apart(self._described, texts, reading, sum(map(len, texts)))
        rows = [row for row, _ in described]
        self._account(call, len(rows), rows, start)
        return rows, [tokens for _, tokens in described]

    async def document(
        self, call: Call, chunks: Sequence[str], reading: Reading, size: int
    ) -> Document:
        """Consecutive chunks of a text as one row; raises BadRequest or TooLarge.

        size: characters of all documents of the request.
        """
        start = time.perf_counter()
        check_texts(call.texts + len(chunks), self._max_texts)
        found = await self._apart(self._document, chunks, reading, size)
        self._account(call, len(chunks), [found.row], start)
        return found

    async def _apart(
        self,
        work: Callable[[Sequence[T], str, Reading], R],
        inputs: Sequence[T],
        reading: Reading,
        size: int,
    ) -> R:
        check_texts(len(inputs), self._max_texts)
        prompt = self.prompt(reading).text
        if size > LONG:
            return await asyncio.to_thread(work, inputs, prompt, reading)
        return work(inputs, prompt, reading)

    def _account(self, call: Call, texts: int, rows: Sequence[Row], start: float) -> None:
        call.texts += texts
        call.tokens += sum(len(row.ids) for row in rows)
        call.truncated += sum(row.dropped > 0 for row in rows)
        check_tokens(call.tokens, self._max_tokens)
        call.tokenize_us += round((time.perf_counter() - start) * 1e6)

    def prompt(self, reading: Reading) -> Prompt:
        """What is put before each text; raises BadRequest."""
        return self._prompts.resolve(reading.prompt, reading.prompt_name, reading.role)

    def _rows(
        self, inputs: Sequence[Text], prompt: str, reading: Reading, first: int = 0
    ) -> list[Row]:
        texts = [prompt + item for item in inputs if isinstance(item, str)]
        skip, rows = self.sentence.skip(prompt, self.tokenizer), []
        # A refusal says how long the text is, and where the prompt is cut off, how much of it.
        told = reading.count or not self._may_cut(reading.truncate) or skip > 0
        count, side = math.inf if told else 0, self._side(reading)
        encoded = iter(self.tokenizer.encode(texts, side, count))
        for index, item in enumerate(inputs, first):
            text = isinstance(item, str)
            ids = next(encoded) if isinstance(item, str) else self._given(index, item, side)
            if ids.dropped and reading.windows:
                self._windows.check(len(ids.ids) + ids.dropped, index)
                rows.append(self._windowed(index, item, prompt, skip))
                continue
            # What is cut off at the left is the prompt's.
            left = max(skip - ids.dropped, 0) if side == "left" else skip
            rows.append(self._row(index, ids, reading.truncate, left if text else 0))
        return rows

    def _attempts(
        self, inputs: Sequence[Text], prompt: str, reading: Reading
    ) -> list[Row | ServiceError]:
        try:
            return [*self._rows(inputs, prompt, reading)]
        except ServiceError:
            return [self._attempt(*item, prompt, reading) for item in enumerate(inputs)]

    def _attempt(self, index: int, item: Text, prompt: str, reading: Reading) -> Row | ServiceError:
        try:
            return self._rows([item], prompt, reading, first=index)[0]
        except ServiceError as error:
            return error

    def _windowed(self, index: int, item: Text, prompt: str, skip: int) -> Row:
        if isinstance(item, str):
            row = self._windows.of_text(item, prompt, index)
            return self._held(replace(row, skip=skip), index)
        return self._windows.of_ids(item, index)

    def _document(self, chunks: Sequence[str], prompt: str, reading: Reading) -> Document:
        side = self._side(reading) if self._may_cut(reading.truncate) else None
        found = self._chunks.read(chunks, prompt, side)
        if self._lacking:
            for index, row in enumerate(found.rows()):
                self._held(row, index)
            self._held(found.row, 0)  # the prompt's token, if it is one
        return found

    def _described(
        self, texts: Sequence[str], prompt: str, reading: Reading
    ) -> list[tuple[Row, list[Token]]]:
        found = []
        for index, text in enumerate(texts):
            ids, tokens = self.tokenizer.describe(text, prompt, reading.side, math.inf)
            found.append((self._row(index, ids, reading.truncate), tokens))
        return found

    def _given(self, index: int, ids: list[int], side: Side) -> Ids:
        # Ids are taken as they are: whoever sends them has added the special tokens.
        if not ids:
            raise BadRequest("an input has no token ids", code="no_input", index=index)
        self.check(ids, index)
        return self.tokenizer.cut(ids, side)

    def check(self, ids: Sequence[int], index: int) -> None:
        """Raises BadRequest for a token id that the vocabulary or the model does not have."""
        wrong = next((i for i in ids if not 0 <= i <= self._last), None)
        if wrong is not None:
            raise BadRequest(
                f"token id {wrong} is not in the vocabulary (0 to {self._last})",
                code="unknown_token",
                index=index,
            )

    def _row(self, index: int, row: Ids, truncate: bool | None, skip: int = 0) -> Row:
        if row.dropped and not self._may_cut(truncate):
            raise BadRequest(
                f"input {index} has {len(row.ids) + row.dropped} tokens, the model reads "
                f"{self.tokenizer.max_length}; shorten it, or have it truncated: on_overflow here, "
                "truncate or truncation in the words of others",
                code="input_too_long",
                index=index,
            )
        return self._held(Row(np.array(row.ids, dtype=np.int32), row.dropped, skip), index)

    def _held(self, row: Row, index: int) -> Row:
        # Only some broken models have a tokenizer of more ids than their table has rows.
        if self._lacking and (beyond := row.ids[row.ids > self._last]).size:
            raise BadRequest(
                f"input {index}: the token {self.tokenizer.name(beyond[0])!r} has id {beyond[0]}, "
                f"the model's table ends at {self._last}",
                code="unknown_token",
                index=index,
            )
        return row

    def _side(self, reading: Reading) -> Side:
        return reading.side or self.tokenizer.side

    def _may_cut(self, truncate: bool | None) -> bool:
        return self._auto_truncate if truncate is None else truncate
