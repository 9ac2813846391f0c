"""Here text ends and token ids begin: tokenising, truncation, prompts and their limits."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.sentence import SentenceConfig
from models.tokenizer import Ids, Side, Token, Tokenizer
from service.call import Call
from service.engine import messages
from service.errors import BadRequest, TooLarge
from service.limits import check_texts

_LONG = 20_000  # characters; a longer batch is tokenised beside the event loop

Text = str | list[int]
T = TypeVar("T", bound=Text)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read texts.

    truncate: None for the server's setting. count: tell how many tokens were cut off, for which
    long texts are read to their end.
    """

    truncate: bool | None = None
    side: Side = "right"
    prompt: str | None = None
    prompt_name: str | None = None
    count: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The token ids of one text, and how many were cut off, or fewer unless they are counted."""

    ids: messages.Ids
    dropped: int


class Reader:
    """Texts or token ids to rows of ids that the model can take."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        *,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
    ) -> None:
        self.tokenizer, self.sentence = tokenizer, sentence
        self._max_texts, self._max_tokens = max_texts, max_tokens
        self._auto_truncate = auto_truncate

    async def read(self, call: Call, inputs: Sequence[Text], reading: Reading) -> list[Row]:
        """Rows of each input, in order; raises BadRequest or TooLarge."""
        start = time.perf_counter()
        rows = await self._apart(self._rows, inputs, reading)
        self._account(call, rows, start)
        return rows

    async def describe(
        self, call: Call, texts: Sequence[str], reading: Reading
    ) -> tuple[list[Row], list[list[Token]]]:
        """The same of texts, and the tokens of each row, which take longer."""
        start = time.perf_counter()
        described = await self._apart(self._described, texts, reading)
        rows = [row for row, _ in described]
        self._account(call, rows, start)
        return rows, [tokens for _, tokens in described]

    async def _apart(
        self, work: Callable[[Sequence[T], str, Reading], R], inputs: Sequence[T], reading: Reading
    ) -> R:
        check_texts(len(inputs), self._max_texts)
        prompt = self.prompt(reading)
        if sum(map(len, inputs)) > _LONG:
            return await asyncio.to_thread(work, inputs, prompt, reading)
        return work(inputs, prompt, reading)

    def _account(self, call: Call, rows: Sequence[Row], start: float) -> None:
        call.texts += len(rows)
        call.tokens += sum(len(row.ids) for row in rows)
        call.truncated += sum(row.dropped > 0 for row in rows)
        if call.tokens > self._max_tokens:
            raise TooLarge(
                f"the request has {call.tokens} tokens, the limit is {self._max_tokens}",
                code="too_many_tokens",
            )
        call.tokenize_us += round((time.perf_counter() - start) * 1e6)

    def prompt(self, reading: Reading) -> str:
        """What is put before each text; raises BadRequest for a name the model does not have."""
        if reading.prompt is not None and reading.prompt_name is not None:
            raise BadRequest("give prompt or prompt_name, not both", param="prompt")
        if reading.prompt is not None:
            return reading.prompt
        if reading.prompt_name is None:
            return self.sentence.default_prompt
        try:
            return self.sentence.prompts[reading.prompt_name]
        except KeyError:
            raise BadRequest(
                f"no prompt {reading.prompt_name!r}; the model has {sorted(self.sentence.prompts)}",
                code="unknown_prompt",
                param="prompt_name",
            ) from None

    def _rows(self, inputs: Sequence[Text], prompt: str, reading: Reading) -> list[Row]:
        texts = [prompt + item for item in inputs if isinstance(item, str)]
        encoded = iter(self.tokenizer.encode(texts, reading.side, self._counted(reading)))
        return [
            self._row(
                index,
                next(encoded) if isinstance(item, str) else self._given(index, item, reading.side),
                reading.truncate,
            )
            for index, item in enumerate(inputs)
        ]

    def _described(
        self, texts: Sequence[str], prompt: str, reading: Reading
    ) -> list[tuple[Row, list[Token]]]:
        count, found = self._counted(reading), []
        for index, text in enumerate(texts):
            ids, tokens = self.tokenizer.describe(text, prompt, reading.side, count)
            found.append((self._row(index, ids, reading.truncate), tokens))
        return found

    def _counted(self, reading: Reading) -> bool:
        # A refusal says how long the text is.
        return reading.count or not self._truncates(reading.truncate)

    def _truncates(self, truncate: bool | None) -> bool:
        return self._auto_truncate if truncate is None else truncate

    def _given(self, index: int, ids: list[int], side: Side) -> Ids:
        # Ids are taken as they are: whoever sends them has added the special tokens.
        if not ids:
            raise BadRequest("an input has no token ids", code="no_input", index=index)
        self.check(ids, index)
        return self.tokenizer.cut(ids, side)

    def check(self, ids: Sequence[int], index: int) -> None:
        """Raises BadRequest for a token id that the vocabulary does not have."""
        wrong = next((i for i in ids if not 0 <= i < self.tokenizer.vocab_size), None)
        if wrong is not None:
            raise BadRequest(
                f"token id {wrong} is not in the vocabulary (0 to {self.tokenizer.vocab_size - 1})",
                code="unknown_token",
                index=index,
            )

    def _row(self, index: int, row: Ids, truncate: bool | None) -> Row:
        if row.dropped and not self._truncates(truncate):
            raise BadRequest(
                f"input {index} has {len(row.ids) + row.dropped} tokens, the model reads "
                f"{self.tokenizer.max_length}; shorten it or set truncate to true",
                code="input_too_long",
                index=index,
            )
        return Row(np.array(row.ids, dtype=np.int32), row.dropped)
