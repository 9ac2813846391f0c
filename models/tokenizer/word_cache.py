"""Token ids of a text from those of its words, which are remembered.

BERT's tokenizer separates words at white space, punctuation and Chinese characters, and what it
makes of a word does not depend on the others: a text's ids are those of its words, one after the
other. To look up words that have come before is five times faster than to normalise and split the
text again; a text with many new ones is read as a whole, and a few of them are remembered.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, islice

from tokenizers import Tokenizer

from models.tokenizer.vocabulary.steps import steps

_ALONE = r"!-/:-@\[-`{-~一-鿿"
# More may be separated inside of such a word; the tokenizer, which is asked for it, sees to that.
_WORDS = re.compile(rf"[^\t\n\r {_ALONE}]+|[{_ALONE}]")
_BERT = {"BertNormalizer", "BertPreTokenizer"}
_SAMPLE = "Of the well-known license: 2 Cafés,\n(ÅNGSTRÖM's)  東京 \t😀\u200d."
_LONGEST = 24  # characters of a word worth remembering
_MOST = 1 << 15  # words: 6 MB of English, 25 MB at most
_NEW = 8  # words of a text; to tokenise each takes as long as four inside of a text
_LONG = 20_000  # characters; while a text is looked up, no other thread of Python runs


class Whole:
    """Each text tokenised as a whole."""

    def __init__(self, rust: Tokenizer) -> None:
        self._rust = rust

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [encoding.ids for encoding in self._rust.encode_batch_fast(list(texts))]


class Wordwise:
    """Each text looked up word by word, where its words are known and no added token is in it."""

    def __init__(
        self, rust: Tokenizer, prefix: Sequence[int], suffix: Sequence[int], most: int = _MOST
    ) -> None:
        """prefix, suffix: the special ids around a text. most: how many words are remembered."""
        self._rust, self._whole, self._most = rust, Whole(rust), most
        self._prefix, self._suffix = prefix, suffix
        added = [re.escape(token.content) for token in rust.get_added_tokens_decoder().values()]
        self._added = re.compile("|".join(added) or "(?!)")  # which matches nothing
        self.words: dict[str, list[int]] = {}

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        found = [self._looked_up(text) for text in texts]
        rest = [text for text, ids in zip(texts, found, strict=True) if ids is None]
        whole = iter(self._whole.of(rest) if rest else ())
        return [next(whole) if ids is None else ids for ids in found]

    def _looked_up(self, text: str) -> list[int] | None:
        if len(text) > _LONG or self._added.search(text):
            return None
        words = _WORDS.findall(text)
        try:
            return self._joined(self.words, words)
        except KeyError:
            known = self._learn(words)
        return self._joined(known, words) if known.keys() >= set(words) else None

    def _joined(self, known: Mapping[str, list[int]], words: Sequence[str]) -> list[int]:
        found = chain.from_iterable(map(known.__getitem__, words))
        return [*self._prefix, *found, *self._suffix]

    def _learn(self, words: Sequence[str]) -> Mapping[str, list[int]]:
        # Threads that still look up in the old words, when there are too many, are not disturbed.
        known = self.words if len(self.words) < self._most else {}
        new = (word for word in words if word not in known and len(word) <= _LONGEST)
        for word in islice(new, _NEW):
            known[word] = self._rust.encode(word, add_special_tokens=False).ids
        self.words = known
        return known


def fastest(rust: Tokenizer, prefix: Sequence[int], suffix: Sequence[int]) -> Whole | Wordwise:
    """What gives a tokenizer's ids soonest. prefix, suffix: the special ones around a text."""
    whole, wordwise = Whole(rust), Wordwise(rust, prefix, suffix)
    samples = [_SAMPLE] * len(_SAMPLE)  # so often that all of its words are known
    if _separates(rust) and wordwise.of(samples) == whole.of(samples):
        return wordwise
    return whole


def _separates(rust: Tokenizer) -> bool:
    kinds = {step["type"] for step in steps(rust)}
    # Other added tokens are looked for in the normalised text.
    exact = not any(token.normalized for token in rust.get_added_tokens_decoder().values())
    return exact and _BERT <= kinds <= _BERT | {"Lowercase"}
