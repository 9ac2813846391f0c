"""Read the inputs of a request within its limits: long ones in threads."""

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from embedwell.compute.request_limits import RequestCosts, check_input_count
from embedwell.compute.work_queue import WorkQueue, run_in_thread
from embedwell.errors import BadRequest, ServiceError, service_error, service_errors
from embedwell_models.errors import InputError
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.read.inputs import (
    ImageReader,
    Input,
    InputOptions,
    InputRow,
    check_tokens,
    encoded_size,
    find_images,
)
from embedwell_models.read.prompts import Prompt, Prompts
from embedwell_models.read.row_tokenizer import RowTokenizer, TextOrImage
from embedwell_models.tokenizer.steps import Steps, run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Token, TruncatedIds

if TYPE_CHECKING:  # imported for late chunking
    from embedwell_models.read.chunks import ChunkedDocument

_MAX_INLINE_SIZE = 4_000  # `tokenization_size` of a request; larger ones are tokenized in threads
_GROUP_SIZE = 1 << 15  # of short texts to tokenize in one step
_FEW_IDS = 2048  # decoding so many takes a millisecond
_ADVICE = ", and the operator can add some with EMBEDWELL_PROMPTS"
_TEXT_SIZE = 10  # a text takes as long as so many characters, in addition to its own

T = TypeVar("T", bound=Sized)
R = TypeVar("R")
Tokenize = Callable[[Sequence[T], str, InputOptions, int], Steps[list[R]]]
RowsOf = Callable[[Sequence[R]], Sequence[InputRow]]


class RequestReader:
    """Reads a request's inputs: prompt, images, threads, limits and counts.

    row_tokenizer: tokenizes the inputs.
    max_length: maximum tokens of a text.
    max_texts, max_tokens: maximum counts of a request.
    in_vocabulary: tells whether a token id is in the vocabulary, see Tokenizer.in_vocabulary.
    special_id: returns the id of the special token of a role, see Tokenizer.special_id.
    """

    def __init__(  # noqa: PLR0913 - all but three by name
        self,
        tokenizer: Tokenizer,
        recipe: VectorRecipe,
        queue: WorkQueue,
        *,
        vocabulary_rows: int,
        min_tokens: int,
        max_texts: int,
        max_tokens: int,
        auto_truncate: bool,
        raw_token_ids: bool,
        images: Callable[[], ImageReader],
        model: int = 0,
    ) -> None:
        """queue: tokenizes long requests.

        vocabulary_rows: rows of the model's embedding table.
        min_tokens: minimum tokens of a text.
        images: returns what prepares the images among the inputs.
        model: index of the model among those that are served.
        """
        self._tokenizer, self._recipe, self._model = tokenizer, recipe, model
        self._queue, self.max_texts, self.max_tokens = queue, max_texts, max_tokens
        self._images = images
        self._prompts = Prompts(recipe, _ADVICE)
        self._before_by_default = recipe.before_text(recipe.default_prompt)
        self.row_tokenizer = RowTokenizer(
            tokenizer,
            recipe,
            vocabulary_rows=vocabulary_rows,
            min_tokens=min_tokens,
            max_tokens=max_tokens,
            auto_truncate=auto_truncate,
            raw_token_ids=raw_token_ids,
        )
        self.max_length, self.in_vocabulary = tokenizer.max_length, tokenizer.in_vocabulary
        self.special_id = tokenizer.special_id

    async def read(
        self, costs: RequestCosts, inputs: Sequence[Input], options: InputOptions
    ) -> list[InputRow]:
        """Tokenize inputs; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        ready = await self._with_pixels(costs, inputs)
        return await self.tokenize_all(costs, ready, options, self.row_tokenizer.read, list)

    async def read_partial(
        self, costs: RequestCosts, inputs: Sequence[Input], options: InputOptions
    ) -> list[InputRow | ServiceError]:
        """Like `read`, but returns an error for each invalid input."""
        ready = await self._with_pixels(costs, inputs)
        results = await self.tokenize_all(
            costs, ready, options, self.row_tokenizer.read_partial, _valid_rows
        )
        return [service_error(row) if isinstance(row, InputError) else row for row in results]

    async def read_with_tokens(
        self, costs: RequestCosts, texts: Sequence[str], options: InputOptions
    ) -> tuple[list[InputRow], list[list[Token]]]:
        """Like `read` for texts, with the tokens of each row; slower."""
        options = replace(options, count_dropped=True)
        results = await self.tokenize_all(
            costs, texts, options, self.row_tokenizer.read_with_tokens, _described_rows
        )
        return _described_rows(results), [tokens for _, tokens in results]

    async def read_chunks(
        self, costs: RequestCosts, chunks: Sequence[str], options: InputOptions, size: int
    ) -> "ChunkedDocument":
        """Tokenize consecutive chunks of a text as one row; raises like `read`.

        size: characters of all documents of the request.
        """
        for texts in (len(chunks), costs.texts + len(chunks)):
            check_input_count(texts, self.max_texts)
        prompt = self._before_text(options)
        to_tokenize = tokenization_size(chunks) + len(prompt)
        steps = self.row_tokenizer.read_chunks(chunks, prompt, options)
        document = await self.run_steps(costs, steps, max(size, to_tokenize), to_tokenize)
        self.count(costs, [document.row], len(chunks))
        return document

    async def all_tokens(  # noqa: PLR0913 - the last ones by name
        self,
        costs: RequestCosts,
        texts: Sequence[str],
        options: InputOptions,
        *,
        special: bool,
        describe: Callable[[str, list[Token]], R],
        bytes_per_character: int,
    ) -> list[R]:
        """Tokenize texts with their prompt and without truncation; raises like `read`.

        special: whether special tokens are added around each text.
        describe: called with each text, prompt included, and its tokens.
        bytes_per_character: memory that the results take.
        """
        check_input_count(len(texts), self.max_texts)
        prompt = self._before_text(options)
        size = tokenization_size(texts, len(prompt))
        costs.memory.grow(bytes_per_character * size)
        steps = self.row_tokenizer.all_tokens(texts, prompt, special, describe)
        return await self.run_steps(costs, steps, size, size)

    def ids_in_steps(self, texts: Sequence[str]) -> Steps[list[list[int]]]:
        """Tokenize texts without prompt, special tokens and truncation; raises InputError."""

        def ids(_: str, tokens: list[Token]) -> list[int]:
            return [token.id for token in tokens]

        return self.row_tokenizer.all_tokens(texts, "", False, ids)

    async def decode(self, rows: Sequence[list[int]], skip_special: bool) -> list[str]:
        """Return the text of each row of token ids; raises BadRequest and TooLarge."""
        total = sum(map(len, rows))
        check_input_count(len(rows), self.max_texts)
        with service_errors():
            check_tokens(total, self.max_tokens)
            for index, row in enumerate(rows):
                self.row_tokenizer.check_ids(row, index)
        decode = self._tokenizer.decode
        return await run_in_thread(decode, rows, skip_special, small=total <= _FEW_IDS)

    async def run_steps(
        self,
        costs: RequestCosts,
        steps: Steps[R],
        size: int,
        size_to_tokenize: int,
    ) -> R:
        """Run tokenization steps, in threads if the request is large.

        size: `tokenization_size` of all texts of the request.
        size_to_tokenize: upper bound for that of the parts to tokenize.
        """
        start = time.perf_counter()
        costs.tokenize_start = costs.tokenize_start or start
        try:
            if size <= _MAX_INLINE_SIZE:
                return run_to_completion(steps)
            return await self._queue.run(steps, size_to_tokenize, costs.tokenize_us / 1e6)
        except InputError as error:
            raise service_error(error) from None
        finally:
            costs.tokenize_us += round((time.perf_counter() - start) * 1e6)

    async def tokenize_all(  # noqa: PLR0913, PLR0917 - of one call
        self,
        costs: RequestCosts,
        inputs: Sequence[T],
        options: InputOptions,
        tokenize: Tokenize[T, R],
        rows_of: RowsOf[R],
        added: int = 0,
    ) -> list[R]:
        """Tokenize all inputs.

        added: number of characters that are added to each input.
        """
        check_input_count(len(inputs), sys.maxsize if options.any_count else self.max_texts)
        prompt = self._before_text(options)
        added += len(prompt)
        size = tokenization_size(inputs, added)
        if size <= _MAX_INLINE_SIZE:
            results = await self.run_steps(costs, tokenize(inputs, prompt, options, 0), size, size)
            self.count(costs, rows_of(results))
            return results
        limit = self.row_tokenizer.max_characters(options)
        to_tokenize = sum(min(added + len(item), limit) + _TEXT_SIZE for item in inputs)
        groups = _groups(inputs, added + _TEXT_SIZE)
        steps = (tokenize(group, prompt, options, first_index) for first_index, group in groups)
        return await self.run_steps(
            costs, self._run_groups(costs, steps, rows_of), size, to_tokenize
        )

    def count(
        self, costs: RequestCosts, rows: Sequence[InputRow], texts: int | None = None
    ) -> None:
        """Add rows to the costs of a request; raises TooLarge. texts: by default one for each."""
        costs.model_index = self._model
        costs.texts += len(rows) if texts is None else texts
        for row in rows:
            costs.tokens += row.tokens
            costs.truncated += row.dropped > 0
        if costs.tokens > self.max_tokens:
            with service_errors():
                check_tokens(costs.tokens, self.max_tokens)

    def resolve_prompt(self, options: InputOptions) -> Prompt:
        """Resolve the prompt of the request; raises BadRequest."""
        try:
            return self._prompts.resolve(
                options.prompt, options.prompt_name, options.role, options.task
            )
        except InputError as error:
            raise service_error(error) from None

    def tokens_around(self, options: InputOptions) -> int:
        """Return how many tokens a text has besides its own: its prompt and the special tokens."""
        before = self._before_text(options)
        with service_errors():
            ids = run_to_completion(self._tokenizer.ids_without_special(before))
        return len(self._tokenizer.special_tokens) + len(ids)

    def limited_length(self, requested: int | None, param: str) -> int | None:
        """Return a requested maximum length, at most the model's; raises BadRequest."""
        if requested is None:
            return None
        length = min(requested, self.max_length)
        self.check_max_length(length, param)
        return length

    def checked_row(
        self, index: int, ids: list[int], dropped: int, options: InputOptions
    ) -> InputRow:
        """Return a row of ids of which some were cut off; raises BadRequest if none may be.

        index: position of its text in the request.
        """
        with service_errors():
            return self.row_tokenizer.checked_row(index, TruncatedIds(ids, dropped), options)

    def check_max_length(self, requested: int, param: str) -> None:
        """Raise BadRequest for a maximum length that is too short for any text."""
        special = len(self._tokenizer.special_tokens)
        if requested <= special:
            raise BadRequest(
                f"{param} is {requested}, but must be above {special}, the number of special "
                "tokens around a text",
                param=param,
            )

    def _before_text(self, options: InputOptions) -> str:
        """Return the text before each text of the request: its prompt, or a template around it."""
        if options.prompt is options.prompt_name is options.role is options.task is None:
            return self._before_by_default
        return self._recipe.before_text(self.resolve_prompt(options).text)

    def _run_groups(
        self, costs: RequestCosts, groups: Iterable[Steps[list[R]]], rows_of: RowsOf[R]
    ) -> Steps[list[R]]:
        results: list[R] = []
        for steps in groups:
            group_results = yield from steps
            self.count(costs, rows_of(group_results))
            results += group_results
            yield
        return results

    async def _with_pixels(
        self, costs: RequestCosts, inputs: Sequence[Input]
    ) -> Sequence[TextOrImage]:
        """Replace the images of a request with their pixels; raises as `read` does."""
        if {*map(type, inputs)} <= {str, list}:
            return cast("Sequence[TextOrImage]", inputs)
        texts, contents = find_images(inputs)
        if not contents:
            return texts
        check_input_count(len(inputs), self.max_texts)
        with service_errors():
            steps, known_bytes = self._images().prepare(contents, costs.tokens)
        costs.memory.grow(known_bytes)
        size = encoded_size(contents)
        prepared = await self.run_steps(costs, steps, sys.maxsize, size)
        costs.memory.grow(sum(item.new_bytes for item in prepared.values()))
        return [prepared.get(index, text) for index, text in enumerate(texts)]


def tokenization_size(inputs: Collection[Sized], added: int = 0) -> int:
    """Estimate the time to tokenize inputs, in characters of a text.

    added: number of characters that are added to each input.
    """
    return sum(map(len, inputs)) + len(inputs) * (added + _TEXT_SIZE)


def _valid_rows(results: Sequence[InputRow | InputError]) -> list[InputRow]:
    return [row for row in results if isinstance(row, InputRow)]


def _described_rows(results: Sequence[tuple[InputRow, list[Token]]]) -> list[InputRow]:
    return [row for row, _ in results]


def _groups(inputs: Sequence[T], added: int) -> Iterator[tuple[int, Sequence[T]]]:
    """Yield groups of inputs to tokenize in one step, with the index of the first input.

    added: size that is added to that of each input.
    """
    start = size = 0
    for index, item in enumerate(inputs):
        length = added + len(item)
        if index > start and size + length > _GROUP_SIZE:
            yield start, inputs[start:index]
            start, size = index, 0
        size += length
    yield start, inputs[start:]
