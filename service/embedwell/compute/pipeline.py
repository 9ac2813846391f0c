"""Pipeline from the rows of a request to their vectors: admission, cache, engine."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from embedwell.compute.admission import Admission
from embedwell.compute.request_limits import RequestCosts
from embedwell.engine.wire.messages import (
    CONTENT,
    IMAGE,
    Job,
    Result,
    pack_content,
    pack_pixels,
    size_class,
)
from embedwell.errors import (
    BadRequest,
    EncodingFailed,
    NotOffered,
    ServiceError,
    TimedOut,
    reindexed,
    service_error,
)
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.errors import InputError
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.read.inputs import (
    InputRow,
    merge_by_average,
    merge_by_maximum,
    split_windows,
    window_input_indices,
)
from embedwell_models.vectors import Floats

if TYPE_CHECKING:  # imported for such models and requests, and for a server with a cache
    from embedwell.compute.vector_cache import JobEngine, VectorCache
    from embedwell_models.model_files.classifier import ClassifierOptions
    from embedwell_models.read.chunks import ChunkedDocument

R = TypeVar("R")

_image_tokens, _windows = attrgetter("image_tokens"), attrgetter("windows")

Computation = Callable[[float], Awaitable[Result]]
"""Computes a job within some seconds."""

ItemResult = tuple[InputRow, Floats] | ServiceError
"""A tokenized input and its vector (D,), or its error."""

_PART_TEXTS = 16
"""Texts of a part: SPLADE's full vectors of so many have a quarter of the numbers allowed."""


class Pipeline:
    """Computes vectors of rows, and adds the times to the costs of the request."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        admission: Admission,
        engine: "JobEngine",
        timeout: float,
        *,
        cache: "VectorCache | None" = None,
        classifier: "ClassifierOptions | None" = None,
        output_names: Sequence[str] = (DENSE,),
    ) -> None:
        """cache: has vectors of the engine; None for no cache.

        classifier: labels of a model that reranks or classifies; None for an embedder.

        output_names: outputs of an embedder, by their names in `output_names`.
        """
        self._classifier, self.output_names = classifier, output_names
        self._admission, self._engine, self._timeout = admission, engine, timeout
        self._cache = cache

    @property
    def classifier(self) -> "ClassifierOptions":
        """The classifier, which knows the labels; raises BadRequest for an embedder."""
        if self._classifier is None:
            raise NotOffered.by_embedder(self.output_names)
        return self._classifier

    async def dense(self, costs: RequestCosts, rows: Sequence[InputRow]) -> Floats:
        """Return pooled vectors (B, D), not normalized: of windows, their average."""
        if any(map(_windows, rows)):
            return await self._submit_windows(costs, rows, merge_by_average)
        return (await self.submit(costs, rows, DENSE)).vectors

    async def compute_outputs(
        self, costs: RequestCosts, rows: Sequence[InputRow], names: Sequence[str]
    ) -> list[TextOutputs]:
        """Compute outputs of tokenized inputs in one pass, by the names of `output_names`."""
        if list(names) == [DENSE]:
            result = await self.submit(costs, rows, DENSE)
            return [TextOutputs(dense=vector) for vector in result.vectors]
        result = await self.submit(costs, rows, "+".join(names))
        return _unpack(result)

    async def compute_in_parts(
        self,
        costs: RequestCosts,
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
            return [keep(text) for text in await self.compute_outputs(costs, rows, names)]
        _check_texts(rows)
        starts = range(0, len(rows), _PART_TEXTS)
        parts = [rows[start : start + _PART_TEXTS] for start in starts]

        async def keep_part(start: int, result: Awaitable[Result]) -> list[R]:
            with reindexed(range(start, start + _PART_TEXTS)):
                texts = _unpack(await result)
            return [keep(text) for text in texts]

        with self._submitted(costs, parts, "+".join(names)) as results:
            return [*chain.from_iterable(await _gather(map(keep_part, starts, results)))]

    async def logits(self, costs: RequestCosts, rows: Sequence[InputRow]) -> Floats:
        """Return the logits (B, labels) of texts or text pairs: of windows, their maximum."""
        return await self._submit_windows(costs, rows, merge_by_maximum)

    async def dense_partial(
        self, costs: RequestCosts, rows: Sequence[InputRow | ServiceError]
    ) -> list[ItemResult]:
        """Like `dense`, but returns an error for each input that fails."""
        items: dict[int, ItemResult] = {
            index: row for index, row in enumerate(rows) if isinstance(row, ServiceError)
        }

        async def pool(index: int, row: InputRow, result: Awaitable[Result]) -> None:
            try:
                items[index] = row, merge_by_average([row], (await result).vectors)[0]
            except EncodingFailed as error:
                error.index = index
                items[index] = error

        valid = {index: row for index, row in enumerate(rows) if isinstance(row, InputRow)}
        windows = [split_windows([row]) for row in valid.values()]
        with self._submitted(costs, windows, DENSE) as results:
            await _gather(map(pool, valid, valid.values(), results))
        return [items[index] for index in range(len(rows))]

    async def chunks(
        self, costs: RequestCosts, document: "ChunkedDocument", layers: int
    ) -> list[ItemResult]:
        """Late chunking: pool the hidden states of each chunk, with all chunks as context."""
        (states,) = await self.hidden(costs, [document.row], layers)
        results = zip(document.chunk_inputs(), document.pool(states, "mean"), strict=True)
        return [
            service_error(vector) if isinstance(vector, InputError) else (row, vector)
            for row, vector in results
        ]

    async def hidden(
        self, costs: RequestCosts, rows: Sequence[InputRow], output: str | int
    ) -> list[Floats]:
        """Return hidden states after some layers, or a summand of the input: (T, D) for each."""
        states = (await self.submit(costs, rows, output)).vectors
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def submit(
        self, costs: RequestCosts, rows: Sequence[InputRow], output: str | int
    ) -> Result:
        """Compute an output of tokenized inputs.

        Raises EncodingFailed, Overloaded, TimedOut and EngineUnavailable.
        """
        if any(map(_image_tokens, rows)):
            return await self._submit_with_images(costs, rows, output)
        with self._submitted(costs, [rows], output) as [result]:
            return await result

    async def _submit_with_images(
        self, costs: RequestCosts, rows: Sequence[InputRow], output: str | int
    ) -> Result:
        """Submit texts, and inputs with equally many tokens of images, as one job each.

        Returns their vectors in order.
        """
        if output != DENSE and not (output == MULTI and _are_pages(rows)):
            _check_texts(rows)
        by_tokens: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            by_tokens.setdefault(row.image_tokens, []).append(index)
        groups = [*by_tokens.values()]

        async def compute(group: Sequence[int], result: Awaitable[Result]) -> Result:
            with reindexed(group):
                return await result

        parts = [[rows[index] for index in group] for group in groups]
        with self._submitted(costs, parts, output) as results:
            computed = await _gather(map(compute, groups, results))
        each = [vectors for result in computed for vectors in result.split()]
        ordered = [each[index] for index in np.argsort([*chain.from_iterable(groups)])]
        counts = [*map(len, ordered)] if output != DENSE else ()
        return replace(computed[0], vectors=np.concatenate(ordered), row_counts=counts)

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raise BadRequest for an output that the model does not have."""
        if self._classifier is not None:
            raise NotOffered.by_classifier(self._classifier.reranks)
        for name in names:
            if name not in self.output_names:
                raise NotOffered.vectors(name, self.output_names)

    @contextmanager
    def _submitted(
        self, costs: RequestCosts, parts: Sequence[Sequence[InputRow]], output: str | int
    ) -> Iterator[list[Awaitable[Result]]]:
        """Admit a job for each part of a request; yield their results, which the caller awaits.

        Records their times at the end.
        """
        tokens = sum([row.tokens for rows in parts for row in rows])
        jobs = [_job(rows, output, tokens) for rows in parts]
        computations: list[Computation]
        if self._cache is None:
            computations = [partial(self._engine.submit, job) for job in jobs]
        else:
            planned = [self._cache.plan(job) for job in jobs]
            computations = [job.compute for job in planned]
            tokens = sum([job.tokens for job in planned])
        times: list[tuple[int, int]] = []
        with self._admission.admit(tokens, costs.tokenize_us / 1e6, costs.body_bytes):
            yield [self._compute(costs, compute, times) for compute in computations]
        _record(costs, times)

    async def _submit_windows(
        self,
        costs: RequestCosts,
        rows: Sequence[InputRow],
        merge: Callable[[Sequence[InputRow], Floats], Floats],
    ) -> Floats:
        with reindexed(window_input_indices(rows)):
            result = await self.submit(costs, split_windows(rows), DENSE)
        return merge(rows, result.vectors)

    async def _compute(
        self,
        costs: RequestCosts,
        compute: Computation,
        times: list[tuple[int, int]],
    ) -> Result:
        """Compute a job, and add its start and end to the times."""
        try:
            result = await compute(self._timeout - costs.tokenize_us / 1e6)
        except TimeoutError:
            raise TimedOut(
                f"the response took longer than {self._timeout:.0f} s; try again, or send fewer "
                "inputs",
                retry_after=1,
            ) from None
        costs.cached += result.cached
        if result.compute_us:
            times.append((result.queue_us, result.queue_us + result.compute_us))
        return result


def _record(costs: RequestCosts, times: Sequence[tuple[int, int]]) -> None:
    """Add the times of jobs that were submitted together: the start and the end of each.

    Jobs share batches, so they take from the start of the first to the end of the last.
    """
    if times:
        starts, ends = zip(*times, strict=True)
        costs.queue_us += min(starts)
        costs.compute_us += max(ends) - min(starts)


def _are_pages(rows: Sequence[InputRow]) -> bool:
    """Return whether all images among the inputs are pages, whose tokens have a vector each."""
    return all(row.content for row in rows if row.image_tokens)


def _check_texts(rows: Sequence[InputRow]) -> None:
    if any(map(_image_tokens, rows)):
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
    return [TextOutputs.unpack(column) for column in result.split()]


def _job(rows: Sequence[InputRow], output: str | int, tokens: int) -> Job:
    """Build a job of texts, of images, of texts with images, or of pages.

    tokens: tokens of all jobs of the request.
    """
    prompt_token_counts = [row.prompt_token_count for row in rows]
    counts = prompt_token_counts if any(prompt_token_counts) else ()
    image_tokens, ids = rows[0].image_tokens, [row.ids for row in rows]
    if image_tokens:
        ids = [
            pack_content(row.ids, row.images) if row.content else pack_pixels(*row.images)
            for row in rows
        ]
        if output == DENSE:
            output = CONTENT if rows[0].content else IMAGE
    flat = FlatRows.of(ids)
    return Job(output, flat, counts, size_class(tokens), image_tokens=image_tokens)
