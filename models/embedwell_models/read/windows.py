"""Split inputs that exceed the model's length into windows."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np

from embedwell_models.errors import PromptTooLongError
from embedwell_models.read.inputs import InputRow, check_window_tokens
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import parts


class TokenCollector:
    """Collects the ids of a prompt and a text, with special tokens."""

    def __init__(self) -> None:
        self.ids = array("i")
        self._outside = bytearray()  # for each id, whether it is a prompt or special token

    def add(self, batch: Sequence[tuple[int, bool]]) -> None:
        """Add ids, each with a flag for a prompt or special token."""
        self.ids.extend(id for id, _ in batch)
        self._outside.extend(outside for _, outside in batch)

    @property
    def tokens_before_text(self) -> int:
        """Number of tokens before the first one of the text."""
        return _leading(self._outside)

    @property
    def tokens_after_text(self) -> int:
        """Number of tokens after the last one of the text."""
        return _leading(reversed(self._outside))


def _leading(outside: Iterable[int]) -> int:
    return sum(1 for _ in takewhile(bool, outside))


class WindowSplitter:
    """Splits a long input into windows of the model's length.

    Each window repeats the special tokens and the prompt. For token ids, those are the special
    tokens at the input's start and end.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        """max_tokens: maximum tokens of all windows of one input."""
        self._tokenizer, self._max_tokens = tokenizer, max_tokens

    def split_text(self, text: str, prompt: str, index: int) -> Steps[InputRow]:
        """Split a text, in steps.

        Raises TooManyTokensError, PromptTooLongError and UnsplittableTextError.
        """
        collector = TokenCollector()
        for tokens in self._tokenizer.id_chunks(text, prompt):
            collector.add(tokens)
            check_window_tokens(len(collector.ids), self._max_tokens, index)
            yield
        return self._cut(
            collector.ids, collector.tokens_before_text, collector.tokens_after_text, index
        )

    def split_ids(self, ids: list[int], index: int) -> InputRow:
        """Split token ids; raises TooManyTokensError."""
        return self._cut(ids, *self._tokenizer.special_tokens.count_around(ids), index)

    def _cut(self, ids: Sequence[int], before: int, after: int, index: int) -> InputRow:
        all_ids = np.array(ids, dtype=np.int32)
        head, body, tail = np.split(all_ids, [before, len(ids) - after])
        room = self._tokenizer.max_length - before - after
        if room < 1:
            raise PromptTooLongError(self._tokenizer.max_length)
        if not len(body):  # the text has no tokens
            return InputRow(all_ids, 0)
        bodies = [body[part] for part in parts(len(body), room)]
        tokens = len(bodies) * (before + after) + len(body)
        check_window_tokens(tokens, self._max_tokens, index)
        windows = [np.concatenate([head, each, tail]) for each in bodies]
        weights = [len(each) for each in bodies]
        return InputRow(np.concatenate(windows), 0, windows=windows, weights=weights)
