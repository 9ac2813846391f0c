"""Pipeline of a request: tokenize its inputs, admit its jobs, compute their vectors."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from typing import Protocol, TypeVar

import numpy as np

from embedwell.engine.wire.messages import CONTENT, IMAGE, Job, Result
from embedwell.engine.wire.sizes import size_class
from embedwell.errors import (
    BadRequest,
    EncodingFailed,
    NotOffered,
    ServiceError,
    TimedOut,
    reindexed,
)
from embedwell.http.request_context import RequestContext
from embedwell.inference.item_result import ItemResult
from embedwell.inference.vector_cache import PlannedJob
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.options import Input, InputOptions, TextOrIds
from embedwell.inputs.request_tokenizer import RequestTokenizer
from embedwell.inputs.text_pair import TextPair
from embedwell.inputs.windows import (
    merge_by_average,
    merge_by_maximum,
    split_windows,
    window_input_indices,
)
from embedwell.limits.admission import Admission
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.model_files.classifier import ClassifierOptions
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import Floats

R = TypeVar("R")

_PART_TEXTS = 16
"""Texts of a part: SPLADE's full vectors of so many have a quarter of the numbers allowed."""
_NO_VECTORS: Floats = np.empty((0, 0), dtype=np.float32)


class JobPlanner(Protocol):
    """Interface of VectorCache."""

    def plan(self, job: Job) -> PlannedJob: ...


class Pipeline:
    """Computes the vectors of requests, and records times in the request context."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        reader: RequestTokenizer,
        admission: Admission,
        planner: JobPlanner,
        timeout: float,
        *,
        classifier: ClassifierOptions | None = None,
        output_names: Sequence[str] = (DENSE,),
    ) -> None:
        """classifier: labels of a model that reranks or classifies; None for an embedder.

        output_names: outputs of an embedder, by their names in `outputs.names`.
        """
        self.reader, self._classifier, self.output_names = reader, classifier, output_names
        self._admission, self._planner, self._timeout = admission, planner, timeout

    @property
    def classifier(self) -> ClassifierOptions:
        """The classifier, which knows the labels; raises BadRequest for an embedder."""
        if self._classifier is None:
            raise NotOffered.by_embedder()
        return self._classifier

    async def embed(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Return the tokenized inputs, and their pooled vectors (B, D), not normalized."""
        self.check_outputs([DENSE])
        rows = await self.reader.read(context, inputs, options)
        if options.windows:
            return rows, await self._submit_windows(context, rows, merge_by_average)
        return rows, (await self.submit(context, rows, DENSE)).vectors

    async def compute_outputs(
        self, context: RequestContext, rows: Sequence[InputRow], names: Sequence[str]
    ) -> list[TextOutputs]:
        """Compute outputs of tokenized inputs in one pass, by the names of `outputs.names`."""
        if list(names) == [DENSE]:
            result = await self.submit(context, rows, DENSE)
            return [TextOutputs(dense=vector) for vector in result.vectors]
        result = await self.submit(context, rows, "+".join(names))
        return _unpack(result)

    async def compute_in_parts(
        self,
        context: RequestContext,
        rows: Sequence[InputRow],
        names: Sequence[str],
        keep: Callable[[TextOutputs], R],
    ) -> list[R]:
        """Compute outputs as `compute_outputs` does, and keep of each text what `keep` returns.

        The texts are computed in parts. An error that `keep` raises cancels those parts that are
        not computed yet, so a response is refused soon after it has become too large.
        """
        if not rows:
            return []
        if len(rows) <= _PART_TEXTS:
            return [keep(text) for text in await self.compute_outputs(context, rows, names)]
        _check_texts(rows)
        output, tokens = "+".join(names), sum(row.tokens for row in rows)
        starts = range(0, len(rows), _PART_TEXTS)
        jobs = self._plan(
            _job(rows[start : start + _PART_TEXTS], output, tokens) for start in starts
        )
        results: list[Result] = []

        async def compute(start: int, job: PlannedJob) -> list[R]:
            with reindexed(range(start, start + _PART_TEXTS)):
                result = await self._compute(context, job)
            results.append(replace(result, vectors=_NO_VECTORS, row_counts=()))
            return [keep(text) for text in _unpack(result)]

        with self._admit(context, jobs):
            parts = await _gather(map(compute, starts, jobs))
        _record(context, results)
        return [*chain.from_iterable(parts)]

    async def score(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[InputRow], Floats]:
        """Return tokenized inputs, and the logits (B, labels) of text pairs or single texts.

        A pair that was split into windows has their maximum.
        """
        rows = await self.reader.read_pairs(context, pairs, options)
        return rows, await self._submit_windows(context, rows, merge_by_maximum)

    async def classify(
        self, context: RequestContext, inputs: Sequence[TextOrIds], options: InputOptions
    ) -> Floats:
        """Return the logits (B, labels) of single texts, some of which may be token ids."""
        texts = [index for index, item in enumerate(inputs) if isinstance(item, str)]
        others = [index for index, item in enumerate(inputs) if not isinstance(item, str)]
        rows: dict[int, InputRow] = {}
        if others:
            limit = min(options.max_pair or self.reader.max_length, self.reader.max_length)
            ids = [inputs[index] for index in others]
            with reindexed(others):
                read = await self.reader.read(context, ids, options.with_max_length(limit))
            rows |= zip(others, read, strict=True)
        if texts or not others:
            pairs = [TextPair(str(inputs[index])) for index in texts]
            with reindexed(texts):
                read = await self.reader.read_pairs(context, pairs, options)
            rows |= zip(texts, read, strict=True)
        ordered = [rows[index] for index in range(len(inputs))]
        return await self._submit_windows(context, ordered, merge_by_maximum)

    async def embed_partial(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[ItemResult]:
        """Like `embed`, but returns an error for each input that fails."""
        self.check_outputs([DENSE])
        rows = await self.reader.read_partial(context, inputs, options)
        valid = {index: row for index, row in enumerate(rows) if isinstance(row, InputRow)}
        tokens = sum(row.tokens for row in valid.values())
        jobs = [_job(split_windows([row]), DENSE, tokens) for row in valid.values()]
        results = await self._compute_each(context, jobs)
        item_results: dict[int, ItemResult] = {
            index: row for index, row in enumerate(rows) if isinstance(row, ServiceError)
        }
        for (index, row), result in zip(valid.items(), results, strict=True):
            if isinstance(result, EncodingFailed):
                result.index = index
                item_results[index] = result
            else:
                item_results[index] = row, merge_by_average([row], result.vectors)[0]
        return [item_results[index] for index in range(len(rows))]

    async def embed_chunks(
        self, context: RequestContext, chunks: Sequence[str], options: InputOptions, layers: int
    ) -> list[ItemResult]:
        """Late chunking: pool the hidden states of each chunk, with all chunks as context."""
        document = await self.reader.read_chunks(context, chunks, options, sum(map(len, chunks)))
        (states,) = await self.hidden(context, [document.row], layers)
        results = zip(document.chunk_inputs(), document.pool(states, "mean"), strict=True)
        return [
            vector if isinstance(vector, ServiceError) else (row, vector) for row, vector in results
        ]

    async def hidden(
        self, context: RequestContext, rows: Sequence[InputRow], output: str | int
    ) -> list[Floats]:
        """Return hidden states after some layers, or a summand of the input: (T, D) for each input.

        rows: the tokenized inputs.
        """
        states = (await self.submit(context, rows, output)).vectors
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def submit(
        self, context: RequestContext, rows: Sequence[InputRow], output: str | int
    ) -> Result:
        """Compute an output of tokenized inputs.

        Raises EncodingFailed, Overloaded, TimedOut and EngineUnavailable.
        """
        if any(row.image_tokens for row in rows):
            return await self._submit_with_images(context, rows, output)
        job = self._planner.plan(_job(rows, output, sum(row.tokens for row in rows)))
        with self._admit(context, [job]):
            result = await self._compute(context, job)
        _record(context, [result])
        return result

    async def _submit_with_images(
        self, context: RequestContext, rows: Sequence[InputRow], output: str | int
    ) -> Result:
        """Submit texts, and inputs with equally many tokens of images, as one job each.

        Returns their vectors in order.
        """
        if output != DENSE and not (output == MULTI and _are_pages(rows)):
            _check_texts(rows)
        tokens = sum(row.tokens for row in rows)
        by_tokens: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            by_tokens.setdefault(row.image_tokens, []).append(index)
        groups = [*by_tokens.values()]
        jobs = [_job([rows[index] for index in group], output, tokens) for group in groups]
        results = await self._compute_each(context, jobs)
        parts = [_checked(result, group) for result, group in zip(results, groups, strict=True)]
        each: dict[int, Floats] = {}
        for group, part in zip(groups, parts, strict=True):
            each |= zip(group, _split(part), strict=True)
        ordered = [each[index] for index in range(len(rows))]
        counts = [*map(len, ordered)] if output != DENSE else ()
        return replace(parts[0], vectors=np.concatenate(ordered), row_counts=counts)

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raise BadRequest for an output that the model does not have."""
        if self._classifier is not None:
            raise NotOffered.by_classifier(self._classifier.reranks)
        missing = next((name for name in names if name not in self.output_names), None)
        if missing is not None:
            raise NotOffered.vectors(missing, self.output_names)

    def _plan(self, jobs: Iterable[Job]) -> list[PlannedJob]:
        return [self._planner.plan(job) for job in jobs]

    def _admit(
        self, context: RequestContext, jobs: Sequence[PlannedJob]
    ) -> AbstractContextManager[None]:
        tokens = sum(job.tokens for job in jobs)
        return self._admission.admit(tokens, context.tokenize_us / 1e6)

    async def _submit_windows(
        self,
        context: RequestContext,
        rows: Sequence[InputRow],
        merge: Callable[[Sequence[InputRow], Floats], Floats],
    ) -> Floats:
        with reindexed(window_input_indices(rows)):
            result = await self.submit(context, split_windows(rows), DENSE)
        return merge(rows, result.vectors)

    async def _compute_each(
        self, context: RequestContext, jobs: Sequence[Job]
    ) -> list[Result | EncodingFailed]:
        planned = self._plan(jobs)
        with self._admit(context, planned):
            results = await asyncio.gather(*(self._try_compute(context, job) for job in planned))
        _record(context, [result for result in results if isinstance(result, Result)])
        return results

    async def _try_compute(
        self, context: RequestContext, job: PlannedJob
    ) -> Result | EncodingFailed:
        try:
            return await self._compute(context, job)
        except EncodingFailed as error:
            return error

    async def _compute(self, context: RequestContext, job: PlannedJob) -> Result:
        remaining = self._timeout - context.tokenize_us / 1e6
        try:
            return await job.compute(remaining)
        except TimeoutError:
            raise TimedOut(
                f"the response took longer than {self._timeout:.0f} s; try again, or send fewer "
                "inputs",
                retry_after=1,
            ) from None


def _are_pages(rows: Sequence[InputRow]) -> bool:
    """Return whether all images among the inputs are pages, whose tokens have a vector each."""
    return all(row.content for row in rows if row.image_tokens)


def _check_texts(rows: Sequence[InputRow]) -> None:
    if any(row.image_tokens for row in rows):
        raise BadRequest(
            "an image has only a dense vector; leave images out of requests for other vectors",
            code="not_offered",
        )


async def _gather(coroutines: Iterable[Coroutine[None, None, R]]) -> list[R]:
    """Return the results of coroutines; raise the first error and cancel the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _unpack(result: Result) -> list[TextOutputs]:
    return [TextOutputs.unpack(column) for column in _split(result)]


def _split(result: Result) -> list[Floats]:
    """Split a result into the rows of each input."""
    counts = result.row_counts or [1] * len(result.vectors)
    return np.split(result.vectors, np.cumsum(counts)[:-1])


def _checked(result: Result | EncodingFailed, indices: Sequence[int]) -> Result:
    """Return an output, or raise its failure with the index in the request.

    indices: indices of the job's inputs.
    """
    if isinstance(result, Result):
        return result
    with reindexed(indices):
        raise result


def _record(context: RequestContext, results: Sequence[Result]) -> None:
    """Add the counts and times of jobs that were submitted together."""
    context.cached += sum(result.cached for result in results)
    computed = [result for result in results if result.compute_us]
    if computed:
        # Jobs share batches, so the time runs from the first job's start to the last job's end.
        start = min(result.queue_us for result in computed)
        context.queue_us += start
        end = max(result.queue_us + result.compute_us for result in computed)
        context.compute_us += end - start


def _job(rows: Sequence[InputRow], output: str | int, tokens: int) -> Job:
    """Build a job of texts, of images, of texts with images, or of pages.

    tokens: tokens of all jobs of the request.
    """
    prompt_token_counts = [row.prompt_token_count for row in rows]
    ids, image_tokens = FlatRows.of([row.ids for row in rows]), rows[0].image_tokens
    counts = prompt_token_counts if any(prompt_token_counts) else ()
    if image_tokens and output == DENSE:
        output = CONTENT if rows[0].content else IMAGE
    return Job(output, ids, counts, size_class(tokens), image_tokens=image_tokens)
