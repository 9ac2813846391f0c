"""Where a long text may be cut before it is tokenised: the part that decides its first or its last
tokens, and the pieces that have all of them.

Where a letter, a space and a letter meet, or a letter of Chinese or Japanese and a sign, most
tokenizers end one token and begin the next whatever stands further off. A tokenizer is known to be
such a one when all its steps are, which look at characters one by one or at the words that they
make, and when a sample shows that it splits there; all others read the whole text.
"""

import re
import sys
from collections.abc import Iterator
from itertools import chain

from tokenizers import Tokenizer, models

from models.errors import UnsplittableTextError
from models.tokenizer.truncation import Side
from models.tokenizer.vocabulary.steps import steps

_CJK = "ぁ-ゖァ-ヺ一-鿿"
_SPACES = (" ", "\n", "\r\n")
# The characters around a border, in a sample and in texts.
_BORDERS = {
    **{("word", mark + "word"): rf"(?<=[^\W\d_]){mark}(?=[^\W\d_])" for mark in _SPACES},
    **{("1", mark + "1"): rf"(?<=[0-9]){mark}(?=[0-9])" for mark in _SPACES},
    **{("字", sign + "字"): f"(?<=[{_CJK}]){sign}(?=[{_CJK}])" for sign in "，。、"},
}
_LOCAL = {
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
_PATTERNS = {
    *(" ", "▁", "``", "''", r"\s+", " {2,}", r"\s{2,}|[\n\r\t]"),
    *(_CLIP, _QWEN, _QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")),
    " ?[^(\\s|[.,!?…。，、।۔،])]+",  # BLOOM
}
_CROSSING = re.compile(r"[^\s▁][\s▁]|.[，。、,]", re.DOTALL)


class SplitPoints:
    """Where the texts of a tokenizer may be cut before they are tokenised."""

    def __init__(self, rust: Tokenizer, longest: int = sys.maxsize) -> None:
        """longest: characters of a piece."""
        self._rust, self._longest = rust, longest
        safe = self._local() and not self._crossing()
        right = [mark for sample, mark in _BORDERS.items() if safe and self._ends(*sample)]
        left = [mark for sample, mark in _BORDERS.items() if safe and self._begins(*sample)]
        self._borders = {"right": _pattern(right), "left": _pattern(left)}
        self._both = _pattern([mark for mark in right if mark in left])

    def of(self, text: str, side: Side, size: int) -> str:
        """One to two times `size` characters of a text, or all of it where it cannot be cut.

        side: where the rest is cut off: the tokens are the first ("right") or last of the text's.
        """
        if len(text) <= 2 * size:
            return text
        start = size if side == "right" else len(text) - 2 * size
        border = self._borders[side].search(text, start, start + size)
        if border is None:
            return text
        return text[: border.start()] if side == "right" else text[border.start() :]

    def pieces(self, text: str, size: int) -> Iterator[tuple[int, int]]:
        """Where the pieces of a text start and stop, whose tokens are those of the text.

        Each has one to two times `size` characters, or more where the text cannot be cut. Raises
        UnsplittableTextError.
        """
        stop = -1
        while stop < len(text):
            start = max(stop, 0)
            stop = self._stop(text, start, size)
            yield start, stop

    def _stop(self, text: str, start: int, size: int) -> int:
        left = len(text) - start
        if left <= 2 * size:
            return len(text)
        for place in range(start + size, start + min(left, self._longest), size):
            if border := self._both.search(text, place, place + size):
                return border.start()
        if left > self._longest:
            raise UnsplittableTextError(self._longest)
        return len(text)

    def _local(self) -> bool:
        found = steps(self._rust)
        patterns = chain.from_iterable(step.get("pattern", {}).values() for step in found)
        delimiters = [step["delimiter"] for step in found if "delimiter" in step]
        known = _PATTERNS.issuperset([*patterns, *delimiters])
        return known and all(step["type"] in _LOCAL for step in found)

    def _crossing(self) -> bool:
        texts = [token.content for token in self._rust.get_added_tokens_decoder().values()]
        return any(_CROSSING.search(text) for text in [*texts, *map(self._normalized, texts)])

    def _ends(self, before: str, after: str) -> bool:
        whole, first = self._pieces(before + after), self._pieces(before)
        if len(whole) == 1:
            return self._joined(whole[0], after) and whole[0].startswith(first[0])
        return bool(first) and whole[: len(first)] == first

    def _begins(self, before: str, after: str) -> bool:
        whole, last = self._pieces(before + after), self._pieces(after)
        added = self._rust.get_added_tokens_decoder().values()
        if any(token.rstrip or token.single_word for token in added):  # they look to their left
            return False
        if len(whole) == 1:  # sums of scores from another start may round to another choice
            joined = self._joined(whole[0], after) and isinstance(self._rust.model, models.BPE)
            return joined and whole[0].endswith(last[0])
        return bool(last) and whole[-len(last) :] == last

    def _joined(self, piece: str, after: str) -> bool:
        # Without a split, no token of the vocabulary may have the space inside.
        model, space = self._rust.model, piece[-len(after)]
        merged = isinstance(model, models.BPE) and not (
            model.continuing_subword_prefix or model.end_of_word_suffix
        )
        if space not in " ▁" or not (merged or isinstance(model, models.Unigram)):
            return False
        return not any(re.search(f"[^{space}]{space}", text) for text in self._rust.get_vocab())

    def _normalized(self, text: str) -> str:
        step = self._rust.normalizer
        return text if step is None else step.normalize_str(text)

    def _pieces(self, text: str) -> list[str]:
        step, text = self._rust.pre_tokenizer, self._normalized(text)
        return [text] if step is None else [piece for piece, _ in step.pre_tokenize_str(text)]


def _pattern(borders: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(borders) or r"(?!)")  # the last matches nothing
