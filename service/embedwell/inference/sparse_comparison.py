"""Sparse vectors of queries and documents as matrices, for comparison."""

from collections.abc import Sequence

from embedwell.errors import TooLarge, reindexed
from embedwell.http.request_context import RequestContext
from embedwell.inference.pipeline import Pipeline
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.options import Input, InputOptions
from embedwell_models.outputs.names import SPARSE, SPARSE_QUERY
from embedwell_models.outputs.text_outputs import (
    SparseVector,
    TextOutputs,
    common_entries,
    over_entries,
)
from embedwell_models.vectors import Floats


async def compute_sparse_vectors(  # noqa: PLR0913 - the last ones by name
    pipeline: Pipeline,
    context: RequestContext,
    inputs: Sequence[Input],
    options: InputOptions,
    *,
    num_queries: int,
    max_values: int,
) -> tuple[list[InputRow], list[SparseVector]]:
    """Return the tokenized inputs and their sparse vectors; the first ones are queries.

    Raises TooLarge as soon as `as_matrix` would need more than max_values numbers.
    """
    pipeline.check_outputs([SPARSE])
    rows = await pipeline.reader.read(context, inputs, options)
    of_queries = SPARSE_QUERY if SPARSE_QUERY in pipeline.output_names else SPARSE

    def keep(text: TextOutputs) -> SparseVector:
        assert text.sparse is not None
        _check_matrix(len(rows), len(text.sparse.indices), max_values)
        return text.sparse

    if of_queries == SPARSE:
        return rows, await pipeline.compute_in_parts(context, rows, [SPARSE], keep)
    first, others = rows[:num_queries], rows[num_queries:]
    queries = await pipeline.compute_in_parts(context, first, [of_queries], keep)
    with reindexed(range(num_queries, len(rows))):
        documents = await pipeline.compute_in_parts(context, others, [SPARSE], keep)
    return rows, [*queries, *documents]


def as_matrix(context: RequestContext, vectors: Sequence[SparseVector], max_values: int) -> Floats:
    """Write sparse vectors as a dense matrix over all entries that occur: (B, entries).

    Raises TooLarge for more than max_values numbers.
    """
    entries = common_entries(vectors)
    _check_matrix(len(vectors), len(entries), max_values)
    context.memory.grow_by_numbers(len(vectors) * len(entries))
    return over_entries(vectors, entries)


def _check_matrix(texts: int, entries: int, max_values: int) -> None:
    if texts * entries > max_values:
        raise TooLarge(
            f"comparing {texts} sparse vectors with {entries} different entries or more needs "
            f"{texts * entries} numbers or more, but the limit is {max_values}; compare fewer "
            "texts",
            code="too_many_values",
        )
