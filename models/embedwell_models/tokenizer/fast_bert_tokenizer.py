"""Tokenization of a text from cached ids of its words.

BERT's tokenizer splits a text at white space, punctuation and Chinese characters, and tokenizes
each word independently: the ids of a text are the concatenated ids of its words. Looking up cached
words is five times faster than normalizing and splitting the text. A text with many new words is
tokenized directly, and a few of these words are added to the cache.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, islice, pairwise

from tokenizers import Tokenizer

from embedwell_models.tokenizer.rust_tokenizer import options_before_model, without_panic

_SINGLE = r"!-/:-@\[-`{-~一-鿿"  # characters that are always words
# The tokenizer may split such a word further; the cache has the ids that it returns.
_WORDS = re.compile(rf"[^\t\n\r {_SINGLE}]+|[{_SINGLE}]")
_BERT = {"BertNormalizer", "BertPreTokenizer"}
_SAMPLE = "Of the well-known license: 2 Cafés,\n(ÅNGSTRÖM's)  東京 \t😀\u200d."
_MAX_WORD_LENGTH = 24  # characters of a cached word
_MAX_WORDS = 1 << 15  # words in the cache: 6 MB of English, at most 25 MB
_MAX_NEW_WORDS = 8  # new words of a text; one word alone takes as long as four in a text
_MAX_TEXT_LENGTH = 20_000  # characters; the look-up blocks other Python threads


class UncachedTokenizer:
    """Tokenizer that tokenizes each text directly."""

    def __init__(self, rust: Tokenizer) -> None:
        self._rust = rust

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; raises TokenizerPanicError."""
        try:
            return [encoding.ids for encoding in self._rust.encode_batch_fast(list(texts))]
        except BaseException as error:
            raise without_panic(error) from None


class CachingTokenizer:
    """Tokenizer that looks words up if all are cached and the text has no added token."""

    def __init__(
        self,
        rust: Tokenizer,
        prefix: Sequence[int],
        suffix: Sequence[int],
        max_words: int = _MAX_WORDS,
    ) -> None:
        """prefix, suffix: ids of special tokens around a text. max_words: words in the cache."""
        self._rust, self._uncached, self._max_words = rust, UncachedTokenizer(rust), max_words
        self._prefix, self._suffix = prefix, suffix
        added = [re.escape(token.content) for token in rust.get_added_tokens_decoder().values()]
        self._added = re.compile("|".join(added) or "(?!)")  # the last matches nothing
        self.cache: dict[str, list[int]] = {}  # word -> ids

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        rows = [self._look_up(text) for text in texts]
        missing = [text for text, ids in zip(texts, rows, strict=True) if ids is None]
        uncached = iter(self._uncached.encode(missing) if missing else ())
        return [next(uncached) if ids is None else ids for ids in rows]

    def _look_up(self, text: str) -> list[int] | None:
        if len(text) > _MAX_TEXT_LENGTH or self._added.search(text):
            return None
        words = _WORDS.findall(text)
        try:
            return self._concatenate(self.cache, words)
        except KeyError:
            cache = self._add_words(words)
        return self._concatenate(cache, words) if cache.keys() >= set(words) else None

    def _concatenate(self, cache: Mapping[str, list[int]], words: Sequence[str]) -> list[int]:
        ids = chain.from_iterable(map(cache.__getitem__, words))
        return [*self._prefix, *ids, *self._suffix]

    def _add_words(self, words: Sequence[str]) -> Mapping[str, list[int]]:
        # A full cache is replaced and not cleared, because other threads may still read it.
        cache = self.cache if len(self.cache) < self._max_words else {}
        new = (word for word in words if word not in cache and len(word) <= _MAX_WORD_LENGTH)
        try:
            for word in islice(new, _MAX_NEW_WORDS):
                cache[word] = self._rust.encode(word, add_special_tokens=False).ids
        except BaseException as error:
            raise without_panic(error) from None
        self.cache = cache
        return cache


def fastest_tokenizer(
    rust: Tokenizer, prefix: Sequence[int], suffix: Sequence[int]
) -> UncachedTokenizer | CachingTokenizer:
    """Return a caching tokenizer if it certainly returns the same ids, else an uncached one.

    prefix, suffix: ids of the special tokens around a text.
    """
    uncached, caching = UncachedTokenizer(rust), CachingTokenizer(rust, prefix, suffix)
    # An added token in the whole sample would hide the other words. Each text is repeated until
    # all its words are cached.
    pairs = [first + second for first, second in pairwise(_SAMPLE)]
    samples = [_SAMPLE] * len(_SAMPLE) + pairs * 2
    if _splits_at_words(rust) and caching.encode(samples) == uncached.encode(samples):
        return caching
    return uncached


def _splits_at_words(rust: Tokenizer) -> bool:
    steps = options_before_model(rust)
    types = {step["type"] for step in steps}
    # Otherwise Chinese characters are parts of words.
    chinese = all(step.get("handle_chinese_chars", True) for step in steps)
    # The other added tokens are matched in the normalized text.
    exact = not any(token.normalized for token in rust.get_added_tokens_decoder().values())
    return exact and chinese and _BERT <= types <= _BERT | {"Lowercase"}
