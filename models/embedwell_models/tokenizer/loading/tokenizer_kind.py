"""Kind of a folder's tokenizer: the class that it names, and what loads one without tokenizer.json.

Here is nothing of the library of tokenizers, which an engine does not need.
"""

import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families import index

if TYPE_CHECKING:
    from tokenizers import Tokenizer

JAPANESE = "BertJapaneseTokenizer"
# Keys of that class, which a folder may use without naming that class.
_SUPPORTED = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}
TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files with options, special and added tokens next to tokenizer.json."""

MAPPED = "vocabulary.safetensors"
"""File with a vocabulary of words and its options, which `embedwell convert` writes."""
LISTED = "whitespacetokenizer_config.json"
"""File of sentence-transformers with the same content, read if the other file is missing."""
CHARACTER_FILE = "character_tokenizer.json"
"""Options of a tokenizer whose ids are the bytes of words."""
VOCABULARY, CODES = "vocab.txt", "bpe.codes"
"""Files of transformers' tokenizers that split words in Python."""


@dataclass(frozen=True, kw_only=True)
class OtherTokenizer:
    """A kind of tokenizer without tokenizer.json.

    load: loader "module:function" of a `LoadedTokenizer`, imported for a folder of this kind. Its
    arguments are the folder, whether texts are lowercased, and whether special tokens are added.
    files: files that determine the ids; a folder with one of them is of this kind. names: values
    of tokenizer_class, or else of model_type, of its other folders. max_tokens: default maximum of
    tokens of a text; None for the model's.
    """

    load: str
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    max_tokens: int | None = None


KINDS = (
    OtherTokenizer(load="embedwell_classic.tokenizers.words:load", files=(MAPPED, LISTED)),
    OtherTokenizer(load="embedwell_classic.tokenizers.characters:load", files=(CHARACTER_FILE,)),
    OtherTokenizer(
        load="embedwell_classic.tokenizers.code_points:load",
        names=("CanineTokenizer", "canine"),
        max_tokens=2048,  # as in transformers' class
    ),
)
FILES = tuple(name for kind in KINDS for name in kind.files)


def find(folder: Path) -> OtherTokenizer | None:
    """Return the kind of a folder's tokenizer; None for one in a tokenizer.json."""
    for kind in KINDS:
        if any((folder / name).is_file() for name in kind.files):
            return kind
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    name = name or config.get("model_type", "")
    return next((kind for kind in KINDS if name in kind.names), None)


@dataclass(frozen=True)
class Reader:
    """A kind of tokenizer of transformers that splits words in Python.

    function: "module:function" of a folder and the token of each role, which returns a Tokenizer.
    special: their defaults. files: files of the vocabulary. splits_at_spaces: whether each word
    between spaces is split independently.
    """

    function: str
    special: Mapping[str, str]
    files: tuple[str, ...]
    splits_at_spaces: bool

    def read(self, folder: Path, special: Mapping[str, str]) -> "Tokenizer":
        """Read the tokenizer of a folder; raises ModelError. special: the token of each role."""
        function: Callable[[Path, Mapping[str, str]], Tokenizer]
        function = pkgutil.resolve_name(self.function)
        return function(folder, special)


_READERS = {
    JAPANESE: Reader(
        "embedwell_classic.tokenizers.segmented:read_japanese",
        {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"},
        (VOCABULARY,),
        splits_at_spaces=False,
    ),
    "PhobertTokenizer": Reader(
        "embedwell_classic.tokenizers.segmented:read_phobert",
        {  # in the order of the ids
            **{"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
            **{"sep": "</s>", "cls": "<s>", "mask": "<mask>"},
        },
        (VOCABULARY, CODES),
        splits_at_spaces=True,
    ),
}


def find_reader(folder: Path) -> Reader | None:
    """Return the reader of a folder's tokenizer; None if tokenizer.json holds the tokenizer.

    Raises ModelError for a tokenizer in remote code.
    """
    name = read_name(folder)
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    if name not in _READERS or (name == JAPANESE and _is_basic(options)):
        return None
    reader = _READERS[name]
    has_files = all((folder / file).is_file() for file in reader.files)
    return reader if has_files else None


def _is_basic(options: JsonConfig) -> bool:
    # Without MeCab, the class splits like BertTokenizer.
    return bool(options.get("word_tokenizer_type", "basic") == "basic")


def files(folder: Path) -> list[Path]:
    """Return the files of a folder that determine the token ids of a text."""
    reader = None if find(folder) else find_reader(folder)
    names = ["tokenizer.json", *TOKEN_FILES, *FILES]
    names += reader.files if reader else ()
    return [path for name in names if (path := folder / name).exists()]


def read_name(folder: Path) -> str:
    """Read the name of the class, or the model_type if the files name no class.

    Raises ModelError for remote code without the name of a known class, and for classes that split
    words with other libraries.
    """
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    custom = _custom_class(options.get("auto_map"))
    if custom and stem(custom) not in _KNOWN:
        raise ModelError(f"{folder}: its tokenizer {custom} is code of the model, which is not run")
    named = custom or options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    if named != JAPANESE or options.get("word_tokenizer_type", "basic") == "basic":
        for key, value in _SUPPORTED.items():
            options.require(key, value)
    name: str = named or config.get("model_type", "")
    if name.lower().startswith("roformer"):
        raise ModelError(f"{folder}: RoFormerTokenizer splits words by jieba: not supported")
    return name


def stem(name: str) -> str:
    """Return the stem of a tokenizer_class, or a model_type, in lowercase without - and _."""
    return re.sub("[-_]", "", name.removesuffix("Fast").removesuffix("Tokenizer")).lower()


_KNOWN = {stem(name) for name in index.TOKENIZER_OVERRIDES}


def _custom_class(auto_map: Any) -> str:
    # Older files list the slow and the fast class without keys.
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    listed = names if isinstance(names, list) else [names]
    return next((name.rpartition(".")[2] for name in listed if isinstance(name, str)), "")
