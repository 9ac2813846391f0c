"""Here text ends and token ids begin: tokenising, prompts, overflow and their limits."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

from models.sentence_transformers.sentence import SentenceConfig
from models.tokenizer.cooperative import Steps, finish
from models.tokenizer.tokenizer import Token, Tokenizer
from service.errors import ServiceError
from service.inputs.chunks import Document
from service.inputs.options import Reading, Text
from service.inputs.prompts import Prompt, Prompts
from service.inputs.row import Row
from service.inputs.rows import Rows
from service.inputs.turns import Turns
from service.request.limits import check_texts, check_tokens
from service.request.request_context import RequestContext

_LONG = 20_000  # characters; more are tokenised beside the event loop
_TOGETHER = 1 << 17  # characters of short texts that are tokenised in one step

T = TypeVar("T", bound=Sized)
R = TypeVar("R")
Work = Callable[[Sequence[T], str, Reading, int], Steps[list[R]]]
Kept = Callable[[Sequence[R]], Sequence[Row]]


class Reader:
    """Texts or token ids to rows of ids that the model can take."""

    def __init__(  # noqa: PLR0913 - all but three by name
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        turns: Turns,
        *,
        table: int,
        shortest: int,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
    ) -> None:
        """table: how many token ids the model has vectors of. turns: of those who read long.

        shortest: the fewest tokens of a text.
        """
        self.tokenizer, self.sentence = tokenizer, sentence
        self._turns, self._max_texts, self._max_tokens = turns, max_texts, max_tokens
        self._prompts = Prompts(sentence)
        self._rows = Rows(
            tokenizer,
            sentence,
            table=table,
            shortest=shortest,
            max_tokens=max_tokens,
            auto_truncate=auto_truncate,
        )
        self.check = self._rows.check

    async def read(
        self, context: RequestContext, inputs: Sequence[Text], reading: Reading
    ) -> list[Row]:
        """Rows of each input, in order; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        return await self._each(context, inputs, reading, self._rows.read, list)

    async def attempt(
        self, context: RequestContext, inputs: Sequence[Text], reading: Reading
    ) -> list[Row | ServiceError]:
        """The same, with what is wrong with an input in its place."""
        return await self._each(context, inputs, reading, self._rows.attempt, _good)

    async def describe(
        self, context: RequestContext, texts: Sequence[str], reading: Reading
    ) -> tuple[list[Row], list[list[Token]]]:
        """The same of texts, and the tokens of each row, which take longer."""
        counted = replace(reading, count=True)
        found = await self._each(context, texts, counted, self._rows.describe, _first)
        return _first(found), [tokens for _, tokens in found]

    async def document(
        self, context: RequestContext, chunks: Sequence[str], reading: Reading, size: int
    ) -> Document:
        """Consecutive chunks of a text as one row; raises what `read` does.

        size: characters of all documents of the request.
        """
        for texts in (len(chunks), context.texts + len(chunks)):
            check_texts(texts, self._max_texts)
        prompt = self.prompt(reading).text
        read = sum(map(len, chunks), len(prompt))
        steps = self._rows.document(chunks, prompt, reading)
        found = await self.take(context, steps, size + len(prompt), read)
        self._account(context, [found.row], len(chunks))
        return found

    async def take(self, context: RequestContext, steps: Steps[R], size: int, read: int) -> R:
        """What steps find in texts of so many characters, and read so many of them at most."""
        start = time.perf_counter()
        try:
            if size <= _LONG:
                return finish(steps)
            return await self._turns.take(steps, read, context.tokenize_us / 1e6)
        finally:
            context.tokenize_us += round((time.perf_counter() - start) * 1e6)

    def prompt(self, reading: Reading) -> Prompt:
        """What is put before each text; raises BadRequest."""
        return self._prompts.resolve(reading.prompt, reading.prompt_name, reading.role)

    async def _each(
        self,
        context: RequestContext,
        inputs: Sequence[T],
        reading: Reading,
        work: Work[T, R],
        rows: Kept[R],
    ) -> list[R]:
        check_texts(len(inputs), self._max_texts)
        prompt = self.prompt(reading).text
        size = sum(map(len, inputs)) + len(inputs) * len(prompt)
        if size <= _LONG:
            found = await self.take(context, work(inputs, prompt, reading, 0), size, size)
            self._account(context, rows(found))
            return found
        most = self._rows.reach(reading)
        read = sum(min(len(prompt) + len(item), most) for item in inputs)
        groups = _groups(inputs, len(prompt))
        steps = (work(group, prompt, reading, first) for first, group in groups)
        return await self.take(context, self._grouped(context, steps, rows), size, read)

    def _grouped(
        self, context: RequestContext, groups: Iterable[Steps[list[R]]], rows: Kept[R]
    ) -> Steps[list[R]]:
        found: list[R] = []
        for steps in groups:
            more = yield from steps
            self._account(context, rows(more))
            found += more
            yield
        return found

    def _account(
        self, context: RequestContext, rows: Sequence[Row], texts: int | None = None
    ) -> None:
        context.texts += len(rows) if texts is None else texts
        context.tokens += sum(len(row.ids) for row in rows)
        context.truncated += sum(row.dropped > 0 for row in rows)
        check_tokens(context.tokens, self._max_tokens)


def _good(found: Sequence[Row | ServiceError]) -> list[Row]:
    return [row for row in found if isinstance(row, Row)]


def _first(found: Sequence[tuple[Row, list[Token]]]) -> list[Row]:
    return [row for row, _ in found]


def _groups(inputs: Sequence[T], prompt: int) -> Iterator[tuple[int, Sequence[T]]]:
    """Inputs that are read together, and the index of the first. prompt: characters before each."""
    start = size = 0
    for index, item in enumerate(inputs):
        own = prompt + len(item)
        if index > start and size + own > _TOGETHER:
            yield start, inputs[start:index]
            start, size = index, 0
        size += own
    yield start, inputs[start:]
