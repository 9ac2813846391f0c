"""Token ids of a text from those of its words, each of which is tokenised once.

BERT's tokenizer separates words at white space, punctuation and Chinese characters, and what it
makes of a word does not depend on the others: a text's ids are those of its words, one after the
other. Most have been seen before, and to look them up is five times faster than to normalise and
split the text again.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

from tokenizers import Tokenizer

from models.vocabulary.steps import steps

_ALONE = r"!-/:-@\[-`{-~一-鿿"
# More may be separated inside of such a word; the tokenizer, which is asked for it, sees to that.
_WORDS = re.compile(rf"[^\t\n\r {_ALONE}]+|[{_ALONE}]")
_BERT = {"BertNormalizer", "BertPreTokenizer"}
_SAMPLE = "Of the well-known license: 2 Cafés,\n(ÅNGSTRÖM's)  東京 \t😀\u200d."
_LONGEST = 24  # characters of a word worth remembering
_MOST = 1 << 15  # words, some 5 MB


class Ids(Protocol):
    """Texts to token ids, special ones included."""

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        ...


class Whole:
    """Each text tokenised as a whole."""

    def __init__(self, rust: Tokenizer) -> None:
        self._rust = rust

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [encoding.ids for encoding in self._rust.encode_batch_fast(list(texts))]


class Wordwise:
    """Each text looked up word by word, unless it has an added token in it."""

    def __init__(
        self, rust: Tokenizer, prefix: Iterable[int], suffix: Iterable[int], most: int = _MOST
    ) -> None:
        """prefix, suffix: the special ids around a text. most: how many words are remembered."""
        self._rust, self._prefix, self._suffix = rust, prefix, suffix
        added = [re.escape(token.content) for token in rust.get_added_tokens_decoder().values()]
        self._added = re.compile("|".join(added) or "(?!)")  # which matches nothing
        self.words = Words(rust, most)

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [self._text(text) for text in texts]

    def _text(self, text: str) -> list[int]:
        if self._added.search(text):
            return self._rust.encode(text).ids
        words = map(self.words.__getitem__, _WORDS.findall(text))
        return [*self._prefix, *chain.from_iterable(words), *self._suffix]


class Words(dict[str, list[int]]):
    """Word -> ids; what is not there is tokenised, and forgotten when there are too many."""

    def __init__(self, rust: Tokenizer, most: int) -> None:
        self._rust, self._most = rust, most

    def __missing__(self, word: str) -> list[int]:
        ids = self._rust.encode(word, add_special_tokens=False).ids
        if len(word) <= _LONGEST:
            if len(self) >= self._most:
                self.clear()
            self[word] = ids
        return ids


def ids(rust: Tokenizer, prefix: list[int], suffix: list[int]) -> Ids:
    """The fastest way to a tokenizer's ids. prefix, suffix: the special ones around a text."""
    whole, wordwise = Whole(rust), Wordwise(rust, prefix, suffix)
    if _separates(rust) and wordwise.of([_SAMPLE]) == whole.of([_SAMPLE]):
        return wordwise
    return whole


def _separates(rust: Tokenizer) -> bool:
    kinds = {step["type"] for step in steps(rust)}
    # Other added tokens are looked for in the normalised text.
    exact = not any(token.normalized for token in rust.get_added_tokens_decoder().values())
    return exact and _BERT <= kinds <= _BERT | {"Lowercase"}
