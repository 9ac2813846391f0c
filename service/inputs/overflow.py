"""What becomes of an input that is longer than the model reads, beyond cutting it: windows."""

from collections.abc import Sequence

import numpy as np

from models.tokenizer.cooperative import Steps
from models.tokenizer.tokenizer import Tokenizer
from models.vectors import Floats
from service.errors import TooLarge
from service.inputs.outline import Outline
from service.inputs.row import Row
from service.request.limits import no_room


class Windows:
    """Cuts a long input into windows of the model's length, each with what frames the whole.

    The frame of a text is its special tokens and its prompt; that of token ids, the special
    tokens that are found around them.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        """max_tokens: of all windows of one input."""
        self._tokenizer, self._max_tokens = tokenizer, max_tokens

    def of_text(self, text: str, prompt: str, index: int) -> Steps[Row]:
        """Windows of a text, in steps; raises BadRequest, TooLarge and Unbroken."""
        found = Outline()
        for piece in self._tokenizer.outline(text, prompt):
            found.add(piece)
            self._check(len(found.ids), index)
            yield
        return self._cut(found.ids, found.before, found.after, index)

    def of_ids(self, ids: list[int], index: int) -> Row:
        """Windows of token ids; raises TooLarge."""
        prefix, suffix = self._tokenizer.prefix, self._tokenizer.suffix
        before = len(prefix) if ids[: len(prefix)] == prefix else 0
        after = len(suffix) if ids[len(ids) - len(suffix) :] == suffix else 0
        return self._cut(ids, before, after, index)

    def _check(self, tokens: int, index: int) -> None:
        if tokens > self._max_tokens:
            raise TooLarge(
                f"input {index} has {tokens} tokens or more in windows, the limit is "
                f"{self._max_tokens}",
                code="too_many_tokens",
                index=index,
            )

    def _cut(self, ids: Sequence[int], before: int, after: int, index: int) -> Row:
        whole = np.array(ids, dtype=np.int32)
        head, body, tail = np.split(whole, [before, len(ids) - after])
        room = self._tokenizer.max_length - before - after
        if room < 1:
            raise no_room(self._tokenizer.max_length)
        if not len(body):  # all of it was nothing that the model knows
            return Row(whole, 0)
        starts = range(0, len(body), room)
        self._check(len(starts) * (before + after) + len(body), index)
        parts = [body[start : start + room] for start in starts]
        windows = [np.concatenate([head, part, tail]) for part in parts]
        weights = [len(part) for part in parts]
        return Row(np.concatenate(windows), 0, windows=windows, weights=weights)


def spread(rows: Sequence[Row]) -> list[Row]:
    """Each window as a row of its own; a row without windows stays."""
    return [part for row in rows for part in _parts(row)]


def owners(rows: Sequence[Row]) -> list[int]:
    """The row of each of `spread`'s."""
    return [index for index, row in enumerate(rows) for _ in _parts(row)]


def average(rows: Sequence[Row], vectors: Floats) -> Floats:
    """The mean of the windows of each row, weighted by their own tokens: (windows, D) -> (B, D)."""
    weights = np.array([w for row in rows for w in (row.weights or [1])], dtype=np.float64)
    starts = np.cumsum([0, *(len(row.windows) or 1 for row in rows[:-1])])
    sums = np.add.reduceat(vectors * weights[:, None], starts, axis=0)
    means: Floats = (sums / np.add.reduceat(weights, starts)[:, None]).astype(np.float32)
    return means


def _parts(row: Row) -> list[Row]:
    return [Row(ids, 0, row.skip) for ids in row.windows] or [row]
