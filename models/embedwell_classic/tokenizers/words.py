"""Tokenizer that splits texts at white space and looks each word up in a vocabulary."""

import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from tokenizers import Tokenizer

from embedwell_classic.tokenizers.vocabulary import Vocabulary, WordOptions, read_vocabulary
from embedwell_models.tokenizer.loading.loader import LoadedTokenizer
from embedwell_models.tokenizer.python_tokenizers import PythonTokenizer, WordEncoding

_WORD = re.compile(r"\S+")
_MAX_CACHED = 1 << 15  # words
_MAX_CACHED_LENGTH = 32  # characters of a word
UNKNOWN = "[UNK]"


def load(folder: Path, lowercase: bool, special_tokens: bool) -> LoadedTokenizer:
    """Load the tokenizer of a folder; raises ModelError."""
    return LoadedTokenizer(cast(Tokenizer, WordTokenizer.read(folder)), "right", {})


class Match(NamedTuple):
    """Ids of a word, and start and stop of the matched text in the word."""

    ids: tuple[int, ...]
    start: int
    stop: int


class WordTokenizer(PythonTokenizer):
    """Tokenizer that looks whole words up in a vocabulary.

    With V words and N buckets of n-grams, the id of a word is its row (0 to V - 1), the id of an
    n-gram is V plus its bucket, and V + N means an unknown word. An unknown word with several
    n-grams has the id of the first n-gram, then the ids of the others plus V + N + 1.

    A word is looked up as written, then without surrounding punctuation, then also in lower case,
    as in sentence-transformers' WhitespaceTokenizer.
    """

    looks_up_words = True

    def __init__(self, vocabulary: Vocabulary, options: WordOptions) -> None:
        """options: options of the look-up."""
        self.vocabulary, self.options = vocabulary, options
        super().__init__(unknown=UNKNOWN)
        self.unknown_id = len(vocabulary)
        self.unknown_id += options.subwords.buckets if options.subwords else 0
        self._cache: dict[str, Match] = {}

    @classmethod
    def read(cls, folder: Path) -> "WordTokenizer":
        """Read the files of a folder; raises ModelError."""
        return cls(read_vocabulary(folder), WordOptions.read(folder))

    def get_vocab_size(self) -> int:
        """Return the number of ids, without the ids of further n-grams of a word."""
        return self.unknown_id + 1

    def id_to_token(self, id: int) -> str | None:
        """Return the word of an id; None for an id that does not exist."""
        id = id if id <= self.unknown_id else id - self.unknown_id - 1
        if id < len(self.vocabulary):
            return self.vocabulary.word(id)
        return UNKNOWN if id <= self.unknown_id else None

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a word as written; None for an unknown word."""
        return self.vocabulary.find(token)

    def in_vocabulary(self, id: int) -> bool:
        """Whether an id is a word's own; unknown words and n-grams are not in the vocabulary."""
        return id < len(self.vocabulary)

    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the ids of a text with their offsets; there are no special tokens."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, match in self._matches(text):
            ids += match.ids
            offsets += [(start + match.start, start + match.stop)] * len(match.ids)
        tokens = [text[slice(*span)] for span in offsets]
        return WordEncoding(ids, tokens, offsets)

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the words of each row of ids, separated by spaces."""
        words = ([self.id_to_token(id) for id in row if id <= self.unknown_id] for row in rows)
        return [" ".join(filter(None, row)) for row in words]

    def _matches(self, text: str) -> Iterator[tuple[int, Match]]:
        lowercase = self.options.lowercase
        for span in _WORD.finditer(text):
            word = span[0].lower() if lowercase else span[0]
            match = self._cache.get(word) or self._find(word)
            yield span.start(), match

    def _find(self, word: str) -> Match:
        match = self._match(word)
        if len(word) <= _MAX_CACHED_LENGTH:
            # A full cache is replaced and not cleared, because other threads may read it.
            cache = self._cache if len(self._cache) < _MAX_CACHED else {}
            cache[word] = match
            self._cache = cache
        return match

    def _match(self, word: str) -> Match:
        stripped = word.strip(string.punctuation)
        start = len(word) - len(word.lstrip(string.punctuation)) if stripped else 0
        inner = (start, start + len(stripped)) if stripped else (0, len(word))
        whole = 0, len(word)
        forms = [(word, whole)]
        if stripped and not self.options.exact:
            forms += [(stripped, inner), (stripped.lower(), inner)]
        for form, span in forms:
            if form in self.options.stop_words:
                return Match((), *span)
            if (id := self.vocabulary.find(form)) is not None:
                return Match((id,), *span)
        span = whole if self.options.exact else inner
        return Match(self._unknown(word[slice(*span)]), *span)

    def _unknown(self, word: str) -> tuple[int, ...]:
        subwords = self.options.subwords
        buckets = subwords.of(word) if subwords else []
        if not buckets:
            return (self.unknown_id,)
        first, *others = [len(self.vocabulary) + bucket for bucket in buckets]
        return (first, *(id + self.unknown_id + 1 for id in others))
