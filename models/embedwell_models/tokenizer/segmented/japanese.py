"""BertJapaneseTokenizer with MeCab (Kudo et al. 2004): words, then WordPiece or characters."""

import importlib
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import WordLevel, WordPiece

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.segmented.pre_tokenizer import Piece, PythonPreTokenizer

VOCABULARY = "vocab.txt"
SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
REQUIREMENTS = "fugashi unidic-lite ipadic"
_DICTIONARIES = ("unidic_lite", "ipadic")
_NOT_SPACE = re.compile(r"\S+")


class MecabSplitter(PythonPreTokenizer):
    """Splits a text into the words that MeCab finds with a dictionary, or into their characters."""

    def __init__(self, dictionary: str, *, characters: bool, lowercase: bool) -> None:
        """dictionary: the module that has it. Raises ModelError if it is not installed."""
        fugashi, folder = _module("fugashi"), Path(_module(dictionary).DICDIR)
        self._tagger = fugashi.GenericTagger(f'-d "{folder}" -r "{folder / "mecabrc"}"')
        self._characters, self.lowercase = characters, lowercase
        self._lock = threading.Lock()  # the words of a text are valid until the next one

    def pieces(self, text: str) -> list[Piece]:
        """Return the words without white space, or the characters of the words."""
        spans = self._words(text)
        if self._characters:
            return [Piece(i, i + 1) for start, stop in spans for i in range(start, stop)]
        return [
            Piece(start + part.start(), start + part.end())
            for start, stop in spans
            for part in _NOT_SPACE.finditer(text[start:stop])
        ]

    def _words(self, text: str) -> Iterator[tuple[int, int]]:
        with self._lock:
            words = [node.surface for node in self._tagger(text)]
        stop = 0
        for word in words:
            start = text.index(word, stop)
            stop = start + len(word)
            yield start, stop


def read(folder: Path, special: Mapping[str, str]) -> Tokenizer:
    """Read a folder's tokenizer. special: the token of each role.

    Raises ModelError for an option that is not supported, and without the packages that it needs.
    """
    options = JsonConfig(folder / "tokenizer_config.json")
    options.require("word_tokenizer_type", "mecab")
    for key in ("do_word_tokenize", "do_subword_tokenize"):
        options.require(key, True)
    options.require("never_split", None, [])
    mecab = options.nested_only("mecab_kwargs", ("mecab_dic", "mecab_option", "normalize_text"))
    mecab.require("mecab_option", None, "")
    mecab.require("normalize_text", True)
    characters = options.require("subword_tokenizer_type", "wordpiece", "character") == "character"
    splitter = MecabSplitter(
        mecab.require("mecab_dic", *_DICTIONARIES),
        characters=characters,
        lowercase=options.get("do_lower_case", False),
    )
    unknown, ids = special["unk"], _vocabulary(folder / VOCABULARY)
    rust = Tokenizer(
        WordLevel(ids, unk_token=unknown) if characters else WordPiece(ids, unk_token=unknown)
    )
    rust.normalizer = normalizers.NFKC()
    rust.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(splitter)
    rust.decoder = decoders.WordPiece(cleanup=False)
    rust.add_special_tokens(list(special.values()))
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    return rust


def _vocabulary(path: Path) -> dict[str, int]:
    try:
        with path.open(encoding="utf-8") as lines:
            return {line.rstrip("\n"): id for id, line in enumerate(lines)}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ModelError(
            f"the model's tokenizer needs {name}: pip install {REQUIREMENTS}"
        ) from None
