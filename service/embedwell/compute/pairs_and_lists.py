"""Read text pairs, and lists of documents that a reranker reads together, within the limits."""

from collections.abc import Sequence

from embedwell.compute.request_limits import RequestCosts, check_input_count
from embedwell.compute.request_reader import RequestReader, tokenization_size
from embedwell.errors import reindexed, service_errors
from embedwell_models.read.inputs import InputOptions, InputRow, TextOrIds, TextPair
from embedwell_models.read.pairs_and_lists import (
    DocumentList,
    ListRows,
    ListwiseReader,
    PairRowTokenizer,
)
from embedwell_models.tokenizer.lists import ListEncoder
from embedwell_models.tokenizer.pairs import PairEncoder
from embedwell_models.tokenizer.steps import Steps


class PairReader:
    """Reads a request's text pairs."""

    def __init__(self, reader: RequestReader, pairs: PairEncoder, segment_offset: int) -> None:
        """reader: reads the inputs that are not pairs, and has the limits.

        segment_offset: number that is added to the ids of the second segment of a pair.
        """
        self._reader = reader
        rows = reader.row_tokenizer.for_pairs(segment_offset)
        self._tokenizer = PairRowTokenizer(pairs, rows, reader.max_tokens)

    async def read(
        self, costs: RequestCosts, pairs: Sequence[TextPair], options: InputOptions
    ) -> list[InputRow]:
        """Tokenize pairs; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        with service_errors():
            tokenizer = self._tokenizer.for_options(options)
        return await self._reader.tokenize_all(
            costs, pairs, options, tokenizer.read, list, tokenizer.added_characters
        )

    async def read_texts_or_ids(
        self, costs: RequestCosts, inputs: Sequence[TextOrIds], options: InputOptions
    ) -> list[InputRow]:
        """Like `read`, for single texts, some of which may be token ids."""
        texts = [index for index, item in enumerate(inputs) if isinstance(item, str)]
        others = [index for index, item in enumerate(inputs) if not isinstance(item, str)]
        rows: dict[int, InputRow] = {}
        if others:
            limit = min(options.max_pair or self._reader.max_length, self._reader.max_length)
            ids = [inputs[index] for index in others]
            with reindexed(others):
                read = await self._reader.read(costs, ids, options.with_max_length(limit))
            rows |= zip(others, read, strict=True)
        if texts or not others:
            pairs = [TextPair(str(inputs[index])) for index in texts]
            with reindexed(texts):
                read = await self.read(costs, pairs, options)
            rows |= zip(texts, read, strict=True)
        return [rows[index] for index in range(len(inputs))]


class ListReader:
    """Reads a request's lists of documents."""

    def __init__(self, reader: RequestReader, lists: ListEncoder) -> None:
        """reader: has the limits."""
        self._reader = reader
        self._lists = ListwiseReader(lists, reader.row_tokenizer, reader.max_tokens)

    async def read(
        self, costs: RequestCosts, lists: Sequence[DocumentList], options: InputOptions
    ) -> list[ListRows]:
        """Tokenize lists; raises BadRequest, TooLarge, Overloaded or TimedOut."""
        documents = [document for each in lists for document in each.documents]
        check_input_count(len(documents), self._reader.max_texts)
        once, with_each = self._lists.added_characters
        once += len(options.instruction or "")
        size = tokenization_size([each.query for each in lists], once)
        size += tokenization_size(documents, with_each)
        steps = self._read(costs, lists, options)
        return await self._reader.run_steps(costs, steps, size, 2 * size)  # alone, and in a block

    def _read(
        self, costs: RequestCosts, lists: Sequence[DocumentList], options: InputOptions
    ) -> Steps[list[ListRows]]:
        results = []
        for each in lists:
            rows = yield from self._lists.read(each, options)
            dropped = [rows.query_dropped, *(row.dropped for row in rows.documents)]
            costs.truncated += sum(number > 0 for number in dropped)
            self._reader.count(costs, rows.blocks, len(rows.documents))
            results.append(rows)
            yield
        return results
