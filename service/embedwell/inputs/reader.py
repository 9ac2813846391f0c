"""Tokenize the inputs of a request within its limits."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import TypeVar

from embedwell.errors import ServiceError
from embedwell.inputs.chunks import ChunkedDocument
from embedwell.inputs.image_reader import ImageReader
from embedwell.inputs.input_queue import InputQueue
from embedwell.inputs.input_tokenizer import InputTokenizer
from embedwell.inputs.options import Input, InputOptions
from embedwell.inputs.pair_input_tokenizer import PairInputTokenizer
from embedwell.inputs.prompts import Prompt, Prompts
from embedwell.inputs.text_pair import TextPair
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.limits import check_input_count, check_tokens
from embedwell.request.request_context import RequestContext
from embedwell_models.sentence_transformers.sentence import SentenceConfig
from embedwell_models.tokenizer.cooperative import Cooperative, run_to_completion
from embedwell_models.tokenizer.pairs import PairEncoder
from embedwell_models.tokenizer.tokenizer import Token, Tokenizer

_MAX_INLINE_CHARACTERS = 20_000  # characters of a request; larger ones are tokenized in threads
_GROUP_CHARACTERS = 1 << 17  # characters of short texts to tokenize in one step

T = TypeVar("T", bound=Sized)
R = TypeVar("R")
Tokenize = Callable[[Sequence[T], str, InputOptions, int], Cooperative[list[R]]]
RowsOf = Callable[[Sequence[R]], Sequence[TokenizedInput]]


class InputReader:
    """Reads a request's inputs: prompt, images, threads, limits and counts."""

    def __init__(  # noqa: PLR0913 - all but three by name
        self,
        tokenizer: Tokenizer,
        sentence: SentenceConfig,
        queue: InputQueue,
        *,
        vocabulary_rows: int,
        min_tokens: int,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
        images: ImageReader,
        pairs: PairEncoder | None = None,
        model: int = 0,
    ) -> None:
        """queue: tokenizes long requests.

        vocabulary_rows: rows of the model's embedding table.
        min_tokens: minimum tokens of a text.
        max_texts, max_tokens: maximum counts of a request.
        images: prepares the images among the inputs.
        pairs: tokenizes text pairs, for a model that reads pairs.
        model: index of the model among those that are served.
        """
        self.tokenizer, self.sentence, self._model = tokenizer, sentence, model
        self._queue, self._max_texts, self._max_tokens = queue, max_texts, max_tokens
        self._images = images
        self._prompts = Prompts(sentence)
        self._input_tokenizer = InputTokenizer(
            tokenizer,
            sentence,
            vocabulary_rows=vocabulary_rows,
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            auto_truncate=auto_truncate,
        )
        self.check_ids = self._input_tokenizer.check_ids
        self._pairs = (
            None if pairs is None else PairInputTokenizer(pairs, self._input_tokenizer, max_tokens)
        )

    async def read(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[TokenizedInput]:
        """Tokenize inputs; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        ready = await self._images.prepare(context, inputs)
        return await self._tokenize_all(context, ready, options, self._input_tokenizer.read, list)

    async def read_partial(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[TokenizedInput | ServiceError]:
        """Like `read`, but returns an error for each invalid input."""
        ready = await self._images.prepare(context, inputs)
        return await self._tokenize_all(
            context, ready, options, self._input_tokenizer.read_partial, _valid_rows
        )

    async def read_pairs(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> list[TokenizedInput]:
        """Like `read`, for text pairs and a model that reads them."""
        assert self._pairs is not None
        tokenizer = self._pairs.for_instruction(options.instruction)
        return await self._tokenize_all(
            context, pairs, options, tokenizer.read, list, tokenizer.added_characters
        )

    async def read_with_tokens(
        self, context: RequestContext, texts: Sequence[str], options: InputOptions
    ) -> tuple[list[TokenizedInput], list[list[Token]]]:
        """Like `read` for texts, with the tokens of each row; slower."""
        options = replace(options, count_dropped=True)
        results = await self._tokenize_all(
            context, texts, options, self._input_tokenizer.read_with_tokens, _described_rows
        )
        return _described_rows(results), [tokens for _, tokens in results]

    async def read_chunks(
        self, context: RequestContext, chunks: Sequence[str], options: InputOptions, size: int
    ) -> ChunkedDocument:
        """Tokenize consecutive chunks of a text as one row; raises like `read`.

        size: characters of all documents of the request.
        """
        for texts in (len(chunks), context.texts + len(chunks)):
            check_input_count(texts, self._max_texts)
        prompt = self.before_text(options)
        to_tokenize = sum(map(len, chunks), len(prompt))
        steps = self._input_tokenizer.read_chunks(chunks, prompt, options)
        document = await self.run_steps(context, steps, size + len(prompt), to_tokenize)
        self._count(context, [document.row], len(chunks))
        return document

    async def run_steps(
        self,
        context: RequestContext,
        steps: Cooperative[R],
        request_characters: int,
        characters_to_tokenize: int,
    ) -> R:
        """Run tokenization steps, in threads if the request is large.

        request_characters: characters of all texts of the request.
        characters_to_tokenize: upper bound for the characters to tokenize.
        """
        start = time.perf_counter()
        context.tokenize_start = context.tokenize_start or start
        try:
            if request_characters <= _MAX_INLINE_CHARACTERS:
                return run_to_completion(steps)
            return await self._queue.run(steps, characters_to_tokenize, context.tokenize_us / 1e6)
        finally:
            context.tokenize_us += round((time.perf_counter() - start) * 1e6)

    def resolve_prompt(self, options: InputOptions) -> Prompt:
        """Resolve the prompt of the request; raises BadRequest."""
        return self._prompts.resolve(
            options.prompt, options.prompt_name, options.role, options.task
        )

    def before_text(self, options: InputOptions) -> str:
        """Return the text before each text of the request: its prompt, or a template around it."""
        return self.sentence.before_text(self.resolve_prompt(options).text)

    async def _tokenize_all(  # noqa: PLR0913, PLR0917 - of one call
        self,
        context: RequestContext,
        inputs: Sequence[T],
        options: InputOptions,
        tokenize: Tokenize[T, R],
        rows_of: RowsOf[R],
        added: int = 0,
    ) -> list[R]:
        """Tokenize all inputs.

        added: number of characters that are added to each input.
        """
        check_input_count(len(inputs), self._max_texts)
        prompt = self.before_text(options)
        added += len(prompt)
        size = sum(map(len, inputs)) + len(inputs) * added
        if size <= _MAX_INLINE_CHARACTERS:
            results = await self.run_steps(
                context, tokenize(inputs, prompt, options, 0), size, size
            )
            self._count(context, rows_of(results))
            return results
        limit = self._input_tokenizer.max_characters(options)
        to_tokenize = sum(min(added + len(item), limit) for item in inputs)
        groups = _groups(inputs, added)
        steps = (tokenize(group, prompt, options, first_index) for first_index, group in groups)
        return await self.run_steps(
            context, self._run_groups(context, steps, rows_of), size, to_tokenize
        )

    def _run_groups(
        self, context: RequestContext, groups: Iterable[Cooperative[list[R]]], rows_of: RowsOf[R]
    ) -> Cooperative[list[R]]:
        results: list[R] = []
        for steps in groups:
            group_results = yield from steps
            self._count(context, rows_of(group_results))
            results += group_results
            yield
        return results

    def _count(
        self, context: RequestContext, rows: Sequence[TokenizedInput], texts: int | None = None
    ) -> None:
        context.model_index = self._model
        context.texts += len(rows) if texts is None else texts
        context.tokens += sum(row.tokens for row in rows)
        context.truncated += sum(row.dropped > 0 for row in rows)
        check_tokens(context.tokens, self._max_tokens)


def _valid_rows(results: Sequence[TokenizedInput | ServiceError]) -> list[TokenizedInput]:
    return [row for row in results if isinstance(row, TokenizedInput)]


def _described_rows(results: Sequence[tuple[TokenizedInput, list[Token]]]) -> list[TokenizedInput]:
    return [row for row, _ in results]


def _groups(inputs: Sequence[T], added: int) -> Iterator[tuple[int, Sequence[T]]]:
    """Yield groups of inputs to tokenize in one step, with the index of the first input.

    added: number of characters that are added to each input.
    """
    start = size = 0
    for index, item in enumerate(inputs):
        length = added + len(item)
        if index > start and size + length > _GROUP_CHARACTERS:
            yield start, inputs[start:index]
            start, size = index, 0
        size += length
    yield start, inputs[start:]
