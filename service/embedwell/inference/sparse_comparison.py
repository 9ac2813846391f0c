"""Sparse vectors of queries and documents as matrices, for comparison."""

from collections.abc import Sequence

from embedwell.errors import TooLarge, reindexed
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.options import Input, InputOptions
from embedwell.inputs.tokenized_input import TokenizedInput
from embedwell.request.request_context import RequestContext
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import SparseVector, common_entries, over_entries
from embedwell_models.vectors import Floats


async def compute_sparse_vectors(
    pipeline: Pipeline,
    context: RequestContext,
    inputs: Sequence[Input],
    options: InputOptions,
    num_queries: int,
) -> tuple[list[TokenizedInput], list[SparseVector]]:
    """Return the tokenized inputs and their sparse vectors; the first ones are queries."""
    pipeline.check_outputs([SPARSE])
    rows = await pipeline.reader.read(context, inputs, options)
    of_queries = SPARSE_QUERY if SPARSE_QUERY in pipeline.output_names else SPARSE
    if of_queries == SPARSE:
        return rows, await _vectors(pipeline, context, rows, SPARSE)
    queries = await _vectors(pipeline, context, rows[:num_queries], of_queries)
    with reindexed(range(num_queries, len(rows))):
        documents = await _vectors(pipeline, context, rows[num_queries:], SPARSE)
    return rows, [*queries, *documents]


async def _vectors(
    pipeline: Pipeline, context: RequestContext, rows: Sequence[TokenizedInput], output: str
) -> list[SparseVector]:
    outputs = await pipeline.compute_outputs(context, rows, [output]) if rows else []
    return [text.sparse for text in outputs if text.sparse is not None]


def as_matrix(context: RequestContext, vectors: Sequence[SparseVector], max_values: int) -> Floats:
    """Write sparse vectors as a dense matrix over all entries that occur: (B, entries).

    Raises TooLarge for more than max_values numbers.
    """
    entries = common_entries(vectors)
    numbers = len(vectors) * len(entries)
    if numbers > max_values:
        raise TooLarge(
            f"comparing {len(vectors)} sparse vectors with {len(entries)} different entries "
            f"needs {numbers} numbers, but the limit is {max_values}; compare fewer texts",
            code="too_many_values",
        )
    context.memory.grow_by_numbers(numbers)
    return over_entries(vectors, entries)
