"""Whose a folder's tokenizer is: the class that its small files name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.tokenizer.vocabulary import classes

_WORDS = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}


@dataclass(frozen=True)
class Origin:
    """name: of the class, or the model_type where none is named.

    custom: whether the class is the repository's own code.
    """

    name: str
    custom: bool

    @classmethod
    def read(cls, folder: Path) -> "Origin":
        """Raises ModelError for code that goes by the name of no class that is known."""
        card = JsonConfig.optional(folder / "config.json")
        options = JsonConfig.optional(folder / "tokenizer_config.json")
        custom = _custom(options.get("auto_map"))
        if custom and classes.find(custom) is None:
            raise ModelError(
                f"{folder}: its tokenizer {custom} is code of the model, which is not run"
            )
        for key, usual in _WORDS.items():  # keys of BertJapaneseTokenizer, which may go unnamed
            options.require(key, usual)
        named = custom or options.get("tokenizer_class", "") or card.get("tokenizer_class", "")
        name = named or card.get("model_type", "")
        if name.lower().startswith("roformer"):
            raise ModelError(f"{folder}: RoFormerTokenizer splits words by jieba: not supported")
        return cls(name, bool(custom))


def _custom(auto_map: Any) -> str:
    # Older files list the slow and the fast class without a key.
    listed = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    return next((name.rpartition(".")[2] for name in listed or () if name), "")
