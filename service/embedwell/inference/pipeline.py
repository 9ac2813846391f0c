"""Pipeline of a request: tokenize its inputs, admit its jobs, compute their vectors."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from embedwell.engine.protocol.messages import IMAGE, Job, Result
from embedwell.engine.protocol.sizes import size_class
from embedwell.errors import BadRequest, EncodingFailed, ServiceError, TimedOut, reindexed
from embedwell.inference.item_result import ItemResult
from embedwell.inputs.options import Input, InputOptions
from embedwell.inputs.reader import InputReader
from embedwell.inputs.text_pair import TextPair
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.inputs.windows import (
    merge_by_average,
    merge_by_maximum,
    split_windows,
    window_input_indices,
)
from embedwell.request.admission import Admission
from embedwell.request.request_context import RequestContext
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.sentence_transformers.classifier import ClassifierOptions
from embedwell_models.vectors import Floats

ROUTES = {
    DENSE: "POST /embed",
    MULTI: "POST /embed, a vector for each token",
    SPARSE: "POST /embed_sparse",
    SPARSE_QUERY: "of queries",
}
"""The route of each output, for error messages."""


class JobExecutor(Protocol):
    """Computes jobs: the vector cache, or ReplayingEngine."""

    async def submit(self, job: Job, timeout: float) -> Result: ...

    def tokens_to_compute(self, job: Job) -> int:
        """Return the tokens to compute for a job."""


class Pipeline:
    """Computes the vectors of requests, and records times in the request context."""

    def __init__(  # noqa: PLR0913 - the last ones by name
        self,
        reader: InputReader,
        admission: Admission,
        engine: JobExecutor,
        timeout: float,
        *,
        classifier: ClassifierOptions | None = None,
        output_names: Sequence[str] = (DENSE,),
    ) -> None:
        """classifier: labels of a model that reranks or classifies; None for an embedder.

        output_names: outputs of an embedder, by their names in `outputs.names`.
        """
        self.reader, self._classifier, self.output_names = reader, classifier, output_names
        self._admission, self._engine, self._timeout = admission, engine, timeout

    @property
    def classifier(self) -> ClassifierOptions:
        """The classifier, which knows the labels; raises BadRequest for an embedder."""
        if self._classifier is None:
            raise BadRequest(
                "this model only embeds texts; send the request to /embed, or to /similarity "
                "to compare texts",
                code="not_offered",
            )
        return self._classifier

    async def embed(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> tuple[list[TokenizedInput], Floats]:
        """Return the tokenized inputs, and their pooled vectors (B, D), not normalized."""
        self.check_outputs([DENSE])
        rows = await self.reader.read(context, inputs, options)
        if options.windows:
            return rows, await self._submit_windows(context, rows, merge_by_average)
        return rows, (await self.submit(context, rows, DENSE)).vectors

    async def compute_outputs(
        self, context: RequestContext, rows: Sequence[TokenizedInput], names: Sequence[str]
    ) -> list[TextOutputs]:
        """Compute outputs of tokenized inputs in one pass, by the names of `outputs.names`."""
        if list(names) == [DENSE]:
            result = await self.submit(context, rows, DENSE)
            return [TextOutputs(dense=vector) for vector in result.vectors]
        result = await self.submit(context, rows, "+".join(names))
        packed = np.split(result.vectors, np.cumsum(result.row_counts)[:-1])
        return [TextOutputs.unpack(column) for column in packed]

    async def score(
        self, context: RequestContext, pairs: Sequence[TextPair], options: InputOptions
    ) -> tuple[list[TokenizedInput], Floats]:
        """Return tokenized inputs, and the logits (B, labels) of text pairs or single texts.

        A pair that was split into windows has their maximum.
        """
        rows = await self.reader.read_pairs(context, pairs, options)
        return rows, await self._submit_windows(context, rows, merge_by_maximum)

    async def embed_partial(
        self, context: RequestContext, inputs: Sequence[Input], options: InputOptions
    ) -> list[ItemResult]:
        """Like `embed`, but returns an error for each input that fails."""
        self.check_outputs([DENSE])
        rows = await self.reader.read_partial(context, inputs, options)
        valid = {index: row for index, row in enumerate(rows) if isinstance(row, TokenizedInput)}
        tokens = sum(row.tokens for row in valid.values())
        jobs = [_job(split_windows([row]), DENSE, tokens) for row in valid.values()]
        results = await self._submit_all(context, jobs)
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
        self, context: RequestContext, rows: Sequence[TokenizedInput], output: str | int
    ) -> list[Floats]:
        """Return hidden states after some layers, or a summand of the input: (T, D) for each input.

        rows: the tokenized inputs.
        """
        states = (await self.submit(context, rows, output)).vectors
        return np.split(states, np.cumsum([len(row.ids) for row in rows])[:-1])

    async def submit(
        self, context: RequestContext, rows: Sequence[TokenizedInput], output: str | int
    ) -> Result:
        """Compute an output of tokenized inputs.

        Raises EncodingFailed, Overloaded, TimedOut and EngineUnavailable.
        """
        if any(row.image_tokens for row in rows):
            return await self._submit_with_images(context, rows, output)
        job = _job(rows, output, sum(row.tokens for row in rows))
        with self._admission.admit(self._engine.tokens_to_compute(job)):
            result = await self._submit_job(context, job)
        _record(context, [result])
        return result

    async def _submit_with_images(
        self, context: RequestContext, rows: Sequence[TokenizedInput], output: str | int
    ) -> Result:
        """Submit images and texts as one job each, and return their vectors in order."""
        if output != DENSE:
            raise BadRequest(
                "an image has only a dense vector; leave images out of requests for other vectors",
                code="not_offered",
            )
        tokens = sum(row.tokens for row in rows)
        texts = [index for index, row in enumerate(rows) if not row.image_tokens]
        images = [index for index, row in enumerate(rows) if row.image_tokens]
        groups = [group for group in (texts, images) if group]
        jobs = [_job([rows[index] for index in group], DENSE, tokens) for group in groups]
        results = await self._submit_all(context, jobs)
        parts = [_checked(result, group) for result, group in zip(results, groups, strict=True)]
        vectors = np.empty((len(rows), parts[0].vectors.shape[1]), dtype=np.float32)
        for group, part in zip(groups, parts, strict=True):
            vectors[group] = part.vectors
        return replace(parts[0], vectors=vectors)

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raise BadRequest for an output that the model does not have."""
        if self._classifier is not None:
            task, route = (
                ("reranks", "/rerank") if self._classifier.reranks else ("classifies", "/predict")
            )
            raise BadRequest(
                f"this model {task} and does not embed; send the request to {route}",
                code="not_offered",
            )
        missing = next((name for name in names if name not in self.output_names), None)
        if missing is not None:
            offered = " and ".join(f"{name} ({ROUTES[name]})" for name in self.output_names)
            raise BadRequest(
                f"this model has no {missing} vectors; it has {offered}", code="not_offered"
            )

    async def _submit_windows(
        self,
        context: RequestContext,
        rows: Sequence[TokenizedInput],
        merge: Callable[[Sequence[TokenizedInput], Floats], Floats],
    ) -> Floats:
        with reindexed(window_input_indices(rows)):
            result = await self.submit(context, split_windows(rows), DENSE)
        return merge(rows, result.vectors)

    async def _submit_all(
        self, context: RequestContext, jobs: Sequence[Job]
    ) -> list[Result | EncodingFailed]:
        with self._admission.admit(sum(map(self._engine.tokens_to_compute, jobs))):
            results = await asyncio.gather(*(self._try_job(context, job) for job in jobs))
        _record(context, [result for result in results if isinstance(result, Result)])
        return results

    async def _try_job(self, context: RequestContext, job: Job) -> Result | EncodingFailed:
        try:
            return await self._submit_job(context, job)
        except EncodingFailed as error:
            return error

    async def _submit_job(self, context: RequestContext, job: Job) -> Result:
        remaining = self._timeout - context.tokenize_us / 1e6
        try:
            return await self._engine.submit(job, remaining)
        except TimeoutError:
            raise TimedOut(
                f"the response took longer than {self._timeout:.0f} s; try again, or send fewer "
                "inputs",
                retry_after=1,
            ) from None


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
    if (
        computed
    ):  # jobs share batches, so the time runs from the first job's start to the last job's end
        start = min(result.queue_us for result in computed)
        context.queue_us += start
        end = max(result.queue_us + result.compute_us for result in computed)
        context.compute_us += end - start


def _job(rows: Sequence[TokenizedInput], output: str | int, tokens: int) -> Job:
    """Build a job of texts, or of images.

    tokens: tokens of all jobs of the request.
    """
    prompt_token_counts = [row.prompt_token_count for row in rows]
    ids, image_tokens = [row.ids for row in rows], rows[0].image_tokens
    counts = prompt_token_counts if any(prompt_token_counts) else ()
    kind = IMAGE if image_tokens else output
    return Job(kind, ids, counts, size_class(tokens), image_tokens=image_tokens)
