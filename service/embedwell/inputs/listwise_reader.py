"""Tokenize lists of documents for a reranker that reads those of a query together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedwell.errors import BadRequest
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.options import InputOptions
from embedwell.inputs.row_tokenizer import RowTokenizer
from embedwell.limits.request_limits import check_tokens, tokenization_errors
from embedwell_models.tokenizer.listwise import ListwiseTokenizer
from embedwell_models.tokenizer.steps import Steps


@dataclass(frozen=True, slots=True)
class DocumentList:
    """A query and its documents, at least one. indices: their positions in the request."""

    query: str
    documents: Sequence[str]
    indices: Sequence[int]


@dataclass(frozen=True, slots=True)
class ListRows:
    """A tokenized list. documents: each as far as it is read.

    blocks: the sequences that the model reads. sizes: number of documents of each. query_dropped:
    number of tokens of the query that are not read.
    """

    documents: list[InputRow]
    blocks: list[InputRow]
    sizes: list[int]
    query_dropped: int


class ListwiseReader:
    """Tokenizes lists in steps, as texts may be long.

    added_characters: of a list and of each of its documents, see ListwiseFormat.
    """

    def __init__(
        self, lists: ListwiseTokenizer, row_tokenizer: RowTokenizer, max_tokens: int
    ) -> None:
        """row_tokenizer: checks lengths. max_tokens: maximum tokens of a list."""
        self._lists, self._row_tokenizer, self._max_tokens = lists, row_tokenizer, max_tokens
        self.added_characters = lists.format.added_characters

    def read(self, each: DocumentList, options: InputOptions) -> Steps[ListRows]:
        """Tokenize a list, whose query is cut if it is too long; raises BadRequest and TooLarge."""
        rows, counted = list[InputRow](), self._row_tokenizer.max_counted_tokens(options)
        with tokenization_errors(each.indices[0]):
            blocks = yield from self._lists.begin(
                each.query, options.instruction, options.max_length, options.side
            )
        for index, document in zip(each.indices, each.documents, strict=True):
            with tokenization_errors(index):
                row = yield from blocks.add(document, counted)
            self._row_tokenizer.check_cut(index, row, options)
            rows.append(_row(row.ids, row.dropped))
            check_tokens(sum(map(len, blocks.ids)), self._max_tokens)
        yield from blocks.finish()
        return ListRows(rows, [_row(ids) for ids in blocks.ids], blocks.sizes, blocks.query_dropped)


def check_listwise(options: InputOptions) -> None:
    """Raise BadRequest for options of pairs that lists do not have."""
    if options.windows:
        raise BadRequest(
            "on_overflow must be error, start or end for a model that ranks lists",
            param="on_overflow",
        )
    if options.max_pair is not None:
        raise BadRequest(
            "this model reads all documents together; limit each with max_tokens_per_doc in place "
            "of truncate_prompt_tokens",
            code="not_offered",
            param="truncate_prompt_tokens",
        )


def _row(ids: Sequence[int], dropped: int = 0) -> InputRow:
    return InputRow(np.array(ids, dtype=np.int32), dropped)
