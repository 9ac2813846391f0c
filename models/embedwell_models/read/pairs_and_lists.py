"""Tokenize text pairs, and lists of documents for a reranker that reads a list together."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from embedwell_models.errors import InputError, UnpairedTextError, UnsplittableTextError
from embedwell_models.read.inputs import (
    InputOptions,
    InputRow,
    TextPair,
    check_tokens,
    check_window_tokens,
)
from embedwell_models.read.row_tokenizer import RowTokenizer
from embedwell_models.tokenizer.lists import ListEncoder
from embedwell_models.tokenizer.pairs import PairEncoder
from embedwell_models.tokenizer.steps import Steps


class PairRowTokenizer:
    """Tokenizes text pairs in steps, as texts may be long."""

    def __init__(self, pairs: PairEncoder, row_tokenizer: RowTokenizer, max_tokens: int) -> None:
        """row_tokenizer: checks lengths and ids.

        max_tokens: maximum tokens of all windows of a pair.
        """
        self._pairs, self._row_tokenizer, self._max_tokens = pairs, row_tokenizer, max_tokens

    def for_options(self, options: InputOptions) -> "PairRowTokenizer":
        """Return a tokenizer for the instruction and the maximum length; raises InputError."""
        tokenizer = self._for_instruction(options.instruction)
        return tokenizer if options.max_pair is None else tokenizer._for_length(options.max_pair)

    def _for_length(self, max_length: int) -> "PairRowTokenizer":
        if max_length >= self._row_tokenizer.max_length:
            return self
        least = self._pairs.min_length
        if max_length < least:
            raise InputError(
                f"truncate_prompt_tokens is {max_length}, but a pair needs {least} tokens or more; "
                "increase it",
                param="truncate_prompt_tokens",
            )
        pairs = self._pairs.with_max_length(max_length)
        return PairRowTokenizer(pairs, self._row_tokenizer, self._max_tokens)

    def _for_instruction(self, instruction: str | None) -> "PairRowTokenizer":
        if instruction is None:
            return self
        try:
            pairs = self._pairs.with_instruction(instruction)
        except InputError:
            raise
        except ValueError:
            raise InputError(
                "this model supports no instruction; leave it out",
                code="not_offered",
                param="instruction",
            ) from None
        return PairRowTokenizer(pairs, self._row_tokenizer, self._max_tokens)

    @property
    def added_characters(self) -> int:
        """Number of characters that are added to each pair."""
        return self._pairs.characters

    def read(
        self, pairs: Sequence[TextPair], prompt: str, options: InputOptions, first_index: int
    ) -> Steps[list[InputRow]]:
        """Tokenize pairs, which have no prompt; raises InputError.

        first_index: index of the first pair in the request.
        """
        try:
            try:
                return (yield from self._read(pairs, options, first_index))
            except UnsplittableTextError as error:
                raise error.with_index(first_index) from None
        except UnpairedTextError as error:
            raise UnpairedTextError(first_index + (error.index or 0)) from None

    def _read(
        self, pairs: Sequence[TextPair], options: InputOptions, first_index: int
    ) -> Steps[list[InputRow]]:
        encoded = yield from self._pairs.encode(
            [(pair.first, pair.second) for pair in pairs],
            options.side,
            self._row_tokenizer.max_counted_tokens(options),
            options.max_length,
        )
        rows = []
        for index, (pair, ids) in enumerate(zip(pairs, encoded, strict=True), first_index):
            if ids.dropped and options.windows and pair.second is not None:
                rows.append((yield from self._windows(pair.first, pair.second, index)))
            else:
                rows.append(self._row_tokenizer.checked_row(index, ids, options))
        return rows

    def _windows(self, first: str, second: str, index: int) -> Steps[InputRow]:
        windows = yield from self._pairs.windows(first, second, self._max_tokens)
        for tokens in accumulate(map(len, windows)):
            check_window_tokens(tokens, self._max_tokens, index)
        arrays = [np.array(ids, dtype=np.int32) for ids in windows]
        return InputRow(np.concatenate(arrays), 0, windows=arrays)


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

    def __init__(self, lists: ListEncoder, row_tokenizer: RowTokenizer, max_tokens: int) -> None:
        """row_tokenizer: checks lengths. max_tokens: maximum tokens of a list."""
        self._lists, self._row_tokenizer, self._max_tokens = lists, row_tokenizer, max_tokens
        self.added_characters = lists.format.added_characters

    def read(self, each: DocumentList, options: InputOptions) -> Steps[ListRows]:
        """Tokenize a list, whose query is cut if it is too long; raises InputError."""
        rows, counted = list[InputRow](), self._row_tokenizer.max_counted_tokens(options)
        try:
            blocks = yield from self._lists.begin(
                each.query, options.instruction, options.max_length, options.side
            )
        except UnsplittableTextError as error:
            raise error.with_index(each.indices[0]) from None
        for index, document in zip(each.indices, each.documents, strict=True):
            try:
                row = yield from blocks.add(document, counted)
            except UnsplittableTextError as error:
                raise error.with_index(index) from None
            self._row_tokenizer.check_cut(index, row, options)
            rows.append(_row(row.ids, row.dropped))
            check_tokens(sum(map(len, blocks.ids)), self._max_tokens)
        yield from blocks.finish()
        return ListRows(rows, [_row(ids) for ids in blocks.ids], blocks.sizes, blocks.query_dropped)


def check_listwise(options: InputOptions) -> None:
    """Raise InputError for options of pairs that lists do not have."""
    if options.windows:
        raise InputError(
            "on_overflow must be error, start or end for a model that ranks lists",
            param="on_overflow",
        )
    if options.max_pair is not None:
        raise InputError(
            "this model reads all documents together; limit each with max_tokens_per_doc in place "
            "of truncate_prompt_tokens",
            code="not_offered",
            param="truncate_prompt_tokens",
        )


def _row(ids: Sequence[int], dropped: int = 0) -> InputRow:
    return InputRow(np.array(ids, dtype=np.int32), dropped)
