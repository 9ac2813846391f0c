"""Points at which a long text can be split before tokenization without a change of its tokens.

Most tokenizers end a token at a space between two letters, and at a punctuation mark between two
Chinese or Japanese characters, whatever the rest of the text is. A tokenizer is known to do so if
all steps of its pipeline look only at single characters or at words, and if it splits a sample
there. All other tokenizers get the whole text.
"""

import re
import sys
from collections.abc import Iterator
from itertools import chain

from tokenizers import Tokenizer, models

from embedwell_models.errors import UnsplittableTextError
from embedwell_models.tokenizer.rust_tokenizer import options_before_model
from embedwell_models.tokenizer.tokens import Side

_CJK = "ぁ-ゖァ-ヺ一-鿿"
_SPACES = (" ", "\n", "\r\n")
# (Sample before, sample after the split point) -> pattern of the split point.
_PATTERNS_BY_SAMPLE = {
    **{("word", space + "word"): rf"(?<=[^\W\d_]){space}(?=[^\W\d_])" for space in _SPACES},
    **{("1", space + "1"): rf"(?<=[0-9]){space}(?=[0-9])" for space in _SPACES},
    **{("字", sign + "字"): f"(?<=[{_CJK}]){sign}(?=[{_CJK}])" for sign in "，。、"},
}
_LOCAL_STEPS = {
    *("BertNormalizer", "Lowercase", "StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Nmt"),
    *("Precompiled", "Prepend", "Strip", "Replace"),
    *("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Metaspace", "ByteLevel", "Digits"),
    *("Punctuation", "CharDelimiterSplit", "Split"),
}
_CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_PATTERNS = {_QWEN, _QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")}
"""Patterns of byte-level BPE that end a word at a space between other characters."""
_KNOWN_PATTERNS = {
    *(" ", "▁", "``", "''", r"\s+", " {2,}", r"\s{2,}|[\n\r\t]"),
    *(_CLIP, *BYTE_PATTERNS),
    " ?[^(\\s|[.,!?…。，、।۔،])]+",  # BLOOM
}
_INNER_SPLIT_POINT = re.compile(r"[^\s▁][\s▁]|.[，。、,]", re.DOTALL)


class SplitPoints:
    """Points at which texts can be split before a tokenizer reads them."""

    def __init__(
        self, rust: Tokenizer, max_characters: int = sys.maxsize, known_local: bool = False
    ) -> None:
        """max_characters: maximum of a chunk. known_local: all steps look only at single words."""
        self._rust, self._max_characters = rust, max_characters
        local = known_local or self._all_steps_local()
        local = local and not self._added_tokens_cross()
        items = _PATTERNS_BY_SAMPLE.items()
        right = [pattern for sample, pattern in items if local and self._ends_token(*sample)]
        left = [pattern for sample, pattern in items if local and self._begins_token(*sample)]
        self._patterns = {"right": _any_of(right), "left": _any_of(left)}
        self._both_sides = _any_of([pattern for pattern in right if pattern in left])

    def excerpt(self, text: str, side: Side, size: int) -> str:
        """Cut a text on a side to `size` characters, or up to twice as many.

        The tokens of the excerpt are the first tokens of the text (side "right") or its last tokens
        (side "left"), except the outermost token at a cut on the left. Returns the text if it
        cannot be split.
        """
        if len(text) <= 2 * size:
            return text
        start = size if side == "right" else len(text) - 2 * size
        point = self._patterns[side].search(text, start, start + size)
        if point is None:
            return text
        return text[: point.start()] if side == "right" else text[point.start() :]

    def chunk_spans(self, text: str, size: int) -> Iterator[tuple[int, int]]:
        """Yield start and stop of chunks whose concatenated tokens are the tokens of the text.

        A chunk has `size` to 2 * `size` characters, and more where the text cannot be split. Raises
        UnsplittableTextError.
        """
        stop = -1
        while stop < len(text):
            start = max(stop, 0)
            stop = self._chunk_stop(text, start, size)
            yield start, stop

    def _chunk_stop(self, text: str, start: int, size: int) -> int:
        remaining = len(text) - start
        if remaining <= 2 * size:
            return len(text)
        for offset in range(start + size, start + min(remaining, self._max_characters), size):
            if point := self._both_sides.search(text, offset, offset + size):
                return point.start()
        if remaining > self._max_characters:
            raise UnsplittableTextError(self._max_characters)
        return len(text)

    def _all_steps_local(self) -> bool:
        steps = options_before_model(self._rust)
        patterns = chain.from_iterable(step.get("pattern", {}).values() for step in steps)
        delimiters = [step["delimiter"] for step in steps if "delimiter" in step]
        known = _KNOWN_PATTERNS.issuperset([*patterns, *delimiters])
        return known and all(step["type"] in _LOCAL_STEPS for step in steps)

    def _added_tokens_cross(self) -> bool:
        texts = [token.content for token in self._rust.get_added_tokens_decoder().values()]
        texts = [*texts, *map(self._normalize, texts)]
        return any(_INNER_SPLIT_POINT.search(text) for text in texts)

    def _ends_token(self, before: str, after: str) -> bool:
        both, first = self._pre_tokenize(before + after), self._pre_tokenize(before)
        if len(both) == 1:
            return self._model_splits(both[0], after) and both[0].startswith(first[0])
        return bool(first) and both[: len(first)] == first

    def _begins_token(self, before: str, after: str) -> bool:
        both, last = self._pre_tokenize(before + after), self._pre_tokenize(after)
        added = self._rust.get_added_tokens_decoder().values()
        if any(token.rstrip or token.single_word for token in added):  # they look to the left
            return False
        if len(both) == 1:  # rounding makes Unigram's sums of scores depend on the start
            exact = isinstance(self._rust.model, models.BPE)
            return exact and self._model_splits(both[0], after) and both[0].endswith(last[0])
        return bool(last) and both[-len(last) :] == last

    def _model_splits(self, word: str, after: str) -> bool:
        # Without a pre-tokenizer, the model splits at a space if no token has a space inside.
        model, space = self._rust.model, word[-len(after)]
        merges = isinstance(model, models.BPE) and not (
            model.continuing_subword_prefix or model.end_of_word_suffix
        )
        if space not in " ▁" or not (merges or isinstance(model, models.Unigram)):
            return False
        return not any(re.search(f"[^{space}]{space}", text) for text in self._rust.get_vocab())

    def _normalize(self, text: str) -> str:
        normalizer = self._rust.normalizer
        return text if normalizer is None else normalizer.normalize_str(text)

    def _pre_tokenize(self, text: str) -> list[str]:
        pre_tokenizer, text = self._rust.pre_tokenizer, self._normalize(text)
        if pre_tokenizer is None:
            return [text]
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or r"(?!)")  # the last matches nothing
