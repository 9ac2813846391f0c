"""Tokenize the inputs of a request: prompts, overflow and limits."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

from models.sentence_transformers.sentence import SentenceConfig
from models.tokenizer.cooperative import Steps, finish
from models.tokenizer.tokenizer import Token, Tokenizer
from service.errors import ServiceError
from service.inputs.chunks import ChunkedDocument
from service.inputs.input_tokenizer import InputTokenizer
from service.inputs.options import InputOptions, Text
from service.inputs.prompts import Prompt, Prompts
from service.inputs.tokenization_queue import TokenizationQueue
from service.inputs.tokenized_input import TokenizedInput
from service.request.limits import check_texts, check_tokens
from service.request.request_context import RequestContext

_LONG_CHARACTERS = 20_000  # characters; more are tokenised beside the event loop
_GROUP_CHARACTERS = 1 << 17  # characters of short texts that are tokenised in one step

T = TypeVar("T", bound=Sized)
R = TypeVar("R")
Work = Callable[[Sequence[T], str, InputOptions, int], Steps[list[R]]]
RowsOf = Callable[[Sequence[R]], Sequence[TokenizedInput]]


class InputReader:
    """Turns texts or token ids into rows for the model."""

    def __init__(  # noqa: PLR0913 - all but three by name
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        queue: TokenizationQueue,
        *,
        vocabulary_rows: int,
        min_tokens: int,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
    ) -> None:
        """vocabulary_rows: of the model's embedding table. queue: tokenizes long requests.

        min_tokens: fewest tokens of a text.
        """
        self.tokenizer, self.sentence = tokenizer, sentence
        self._queue, self._max_texts, self._max_tokens = queue, max_texts, max_tokens
        self._prompts = Prompts(sentence)
        self._input_tokenizer = InputTokenizer(
            tokenizer,
            sentence,
            vocabulary_rows=vocabulary_rows,
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            auto_truncate=auto_truncate,
        )
        self.check = self._input_tokenizer.check

    async def read(
        self, context: RequestContext, inputs: Sequence[Text], options: InputOptions
    ) -> list[TokenizedInput]:
        """Rows of each input, in order; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        return await self._tokenize_all(context, inputs, options, self._input_tokenizer.read, list)

    async def attempt(
        self, context: RequestContext, inputs: Sequence[Text], options: InputOptions
    ) -> list[TokenizedInput | ServiceError]:
        """Like `read`, with an error in place of each invalid input."""
        return await self._tokenize_all(
            context, inputs, options, self._input_tokenizer.attempt, _valid
        )

    async def describe(
        self, context: RequestContext, texts: Sequence[str], options: InputOptions
    ) -> tuple[list[TokenizedInput], list[list[Token]]]:
        """Like `read` for texts, and the tokens of each row; slower."""
        counted = replace(options, count=True)
        results = await self._tokenize_all(
            context, texts, counted, self._input_tokenizer.describe, _rows_of
        )
        return _rows_of(results), [tokens for _, tokens in results]

    async def document(
        self, context: RequestContext, chunks: Sequence[str], options: InputOptions, size: int
    ) -> ChunkedDocument:
        """Consecutive chunks of a text as one row; raises what `read` does.

        size: characters of all documents of the request.
        """
        for texts in (len(chunks), context.texts + len(chunks)):
            check_texts(texts, self._max_texts)
        prompt = self.prompt(options).text
        read = sum(map(len, chunks), len(prompt))
        steps = self._input_tokenizer.document(chunks, prompt, options)
        results = await self.run(context, steps, size + len(prompt), read)
        self._account(context, [results.row], len(chunks))
        return results

    async def run(self, context: RequestContext, steps: Steps[R], size: int, read: int) -> R:
        """Run tokenization steps. size: characters of the texts. read: most that are read."""
        start = time.perf_counter()
        try:
            if size <= _LONG_CHARACTERS:
                return finish(steps)
            return await self._queue.run(steps, read, context.tokenize_us / 1e6)
        finally:
            context.tokenize_us += round((time.perf_counter() - start) * 1e6)

    def prompt(self, options: InputOptions) -> Prompt:
        """Resolve the prompt of the request; raises BadRequest."""
        return self._prompts.resolve(options.prompt, options.prompt_name, options.role)

    async def _tokenize_all(
        self,
        context: RequestContext,
        inputs: Sequence[T],
        options: InputOptions,
        work: Work[T, R],
        rows: RowsOf[R],
    ) -> list[R]:
        check_texts(len(inputs), self._max_texts)
        prompt = self.prompt(options).text
        size = sum(map(len, inputs)) + len(inputs) * len(prompt)
        if size <= _LONG_CHARACTERS:
            results = await self.run(context, work(inputs, prompt, options, 0), size, size)
            self._account(context, rows(results))
            return results
        limit = self._input_tokenizer.reach(options)
        read = sum(min(len(prompt) + len(item), limit) for item in inputs)
        groups = _groups(inputs, len(prompt))
        steps = (work(group, prompt, options, first) for first, group in groups)
        return await self.run(context, self._grouped(context, steps, rows), size, read)

    def _grouped(
        self, context: RequestContext, groups: Iterable[Steps[list[R]]], rows: RowsOf[R]
    ) -> Steps[list[R]]:
        results: list[R] = []
        for steps in groups:
            batch = yield from steps
            self._account(context, rows(batch))
            results += batch
            yield
        return results

    def _account(
        self, context: RequestContext, rows: Sequence[TokenizedInput], texts: int | None = None
    ) -> None:
        context.texts += len(rows) if texts is None else texts
        context.tokens += sum(len(row.ids) for row in rows)
        context.truncated += sum(row.dropped > 0 for row in rows)
        check_tokens(context.tokens, self._max_tokens)


def _valid(results: Sequence[TokenizedInput | ServiceError]) -> list[TokenizedInput]:
    return [row for row in results if isinstance(row, TokenizedInput)]


def _rows_of(results: Sequence[tuple[TokenizedInput, list[Token]]]) -> list[TokenizedInput]:
    return [row for row, _ in results]


def _groups(inputs: Sequence[T], prompt: int) -> Iterator[tuple[int, Sequence[T]]]:
    """Inputs that are read together, and the index of the first. prompt: characters before each."""
    start = size = 0
    for index, item in enumerate(inputs):
        length = prompt + len(item)
        if index > start and size + length > _GROUP_CHARACTERS:
            yield start, inputs[start:index]
            start, size = index, 0
        size += length
    yield start, inputs[start:]
