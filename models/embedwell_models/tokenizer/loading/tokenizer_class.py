"""Tokenizer class of transformers that a folder's JSON files name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import class_overrides

JAPANESE = "BertJapaneseTokenizer"
# Keys of that class, which a folder may use without naming that class.
_SUPPORTED = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}
# Stems of the classes, and model types, whose tokenizers return segments.
_WITH_SEGMENTS = (
    *("bert", "convbert", "deberta", "debertav2", "dprcontextencoder", "dprquestionencoder"),
    *("electra", "ernie", "layoutlm", "lxmert", "mobilebert", "nomicbert", "squeezebert"),
)


@dataclass(frozen=True)
class TokenizerClass:
    """name: name of the class, or the model_type if the files name no class."""

    name: str

    @classmethod
    def read(cls, folder: Path) -> "TokenizerClass":
        """Read the class; raises ModelError for remote code without the name of a known class.

        Raises ModelError also for classes that split words with other libraries.
        """
        config = JsonConfig.optional(folder / "config.json")
        options = JsonConfig.optional(folder / "tokenizer_config.json")
        custom = _custom_class(options.get("auto_map"))
        if custom and class_overrides.find(custom) is None:
            raise ModelError(
                f"{folder}: its tokenizer {custom} is code of the model, which is not run"
            )
        named = custom or options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
        if named != JAPANESE or options.get("word_tokenizer_type", "basic") == "basic":
            for key, value in _SUPPORTED.items():
                options.require(key, value)
        name = named or config.get("model_type", "")
        if name.lower().startswith("roformer"):
            raise ModelError(f"{folder}: RoFormerTokenizer splits words by jieba: not supported")
        return cls(name)


def returns_segments(folder: Path) -> bool:
    """Whether the tokenizer of a folder returns the segments (token types) of a pair.

    The post-processor in tokenizer.json decides which these are. Raises ModelError as
    TokenizerClass.read.
    """
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    if "model_input_names" in options:
        return "token_type_ids" in options["model_input_names"]
    return class_overrides.stem(TokenizerClass.read(folder).name) in _WITH_SEGMENTS


def _custom_class(auto_map: Any) -> str:
    # Older files list the slow and the fast class without keys.
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    return next((name.rpartition(".")[2] for name in names or () if name), "")
