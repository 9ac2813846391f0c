"""Tokenize text pairs, and truncate, reject or split those that are too long."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from embedwell.errors import BadRequest, NotOffered
from embedwell.inputs.input_row import InputRow
from embedwell.inputs.options import InputOptions
from embedwell.inputs.row_tokenizer import RowTokenizer
from embedwell.inputs.text_pair import TextPair
from embedwell.limits.request_limits import check_window_tokens, tokenization_errors
from embedwell_models.errors import InstructionTooLongError, UnpairedTextError
from embedwell_models.tokenizer.formatted_pairs import PairEncoder
from embedwell_models.tokenizer.steps import Steps


class PairRowTokenizer:
    """Tokenizes text pairs in steps, as texts may be long."""

    def __init__(self, pairs: PairEncoder, row_tokenizer: RowTokenizer, max_tokens: int) -> None:
        """row_tokenizer: checks lengths and ids.

        max_tokens: maximum tokens of all windows of a pair.
        """
        self._pairs, self._row_tokenizer, self._max_tokens = pairs, row_tokenizer, max_tokens

    def for_options(self, options: InputOptions) -> "PairRowTokenizer":
        """Return a tokenizer for the instruction and the maximum length; raises BadRequest."""
        tokenizer = self._for_instruction(options.instruction)
        return tokenizer if options.max_pair is None else tokenizer._for_length(options.max_pair)

    def _for_length(self, max_length: int) -> "PairRowTokenizer":
        if max_length >= self._row_tokenizer.max_length:
            return self
        least = self._pairs.min_length
        if max_length < least:
            raise BadRequest(
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
        except InstructionTooLongError as error:
            raise BadRequest(
                f"{error}; shorten it", code="prompt_too_long", param="instruction"
            ) from None
        except ValueError:
            raise BadRequest(
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
        """Tokenize pairs, which have no prompt; raises BadRequest and TooLarge.

        first_index: index of the first pair in the request.
        """
        try:
            with tokenization_errors(first_index):
                return (yield from self._read(pairs, options, first_index))
        except UnpairedTextError as error:
            raise NotOffered.single_text(first_index + error.index) from None

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
