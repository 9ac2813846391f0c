"""Tokenizer class of transformers that a folder names, and what it overrides in tokenizer.json."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families import index
from embedwell_models.families.family import Family, TokenizerOverride
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens

JAPANESE = "BertJapaneseTokenizer"
# Keys of that class, which a folder may use without naming that class.
_SUPPORTED = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece"}
# Stems of the classes, and model types, whose tokenizers return segments.
_WITH_SEGMENTS = (
    *("bert", "convbert", "deberta", "debertav2", "dprcontextencoder", "dprquestionencoder"),
    *("electra", "ernie", "layoutlm", "lxmert", "mobilebert", "nomicbert", "squeezebert"),
)
Override = Callable[[Tokenizer, AddedTokens], None]
"""Function that overrides options of a tokenizer by the files next to tokenizer.json."""


def read_name(folder: Path) -> str:
    """Read the name of the class, or the model_type if the files name no class.

    Raises ModelError for remote code without the name of a known class, and for classes that split
    words with other libraries.
    """
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    custom = _custom_class(options.get("auto_map"))
    if custom and override(custom) is None:
        raise ModelError(f"{folder}: its tokenizer {custom} is code of the model, which is not run")
    named = custom or options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    if named != JAPANESE or options.get("word_tokenizer_type", "basic") == "basic":
        for key, value in _SUPPORTED.items():
            options.require(key, value)
    name: str = named or config.get("model_type", "")
    if name.lower().startswith("roformer"):
        raise ModelError(f"{folder}: RoFormerTokenizer splits words by jieba: not supported")
    return name


def returns_segments(folder: Path) -> bool:
    """Whether the tokenizer of a folder returns the segments (token types) of a pair.

    The post-processor in tokenizer.json decides which these are. Raises ModelError as `read_name`.
    """
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    if "model_input_names" in options:
        return "token_type_ids" in options["model_input_names"]
    return stem(read_name(folder)) in _WITH_SEGMENTS


def lowercases(folder: Path, name: str) -> bool:
    """Whether texts are in lowercase before tokenizer.json reads them. name: see `read_name`."""
    # SigLIP 2 is trained so (arXiv 2502.14786), but most of its files name Gemma's class.
    model_type = JsonConfig.optional(folder / "config.json").get("model_type", "")
    as_gemma = stem(name) == "gemma" and model_type in ("siglip", "siglip2")
    return stem(name) == "siglip2" or as_gemma


def stem(name: str) -> str:
    """Return the stem of a tokenizer_class, or a model_type, in lowercase without - and _."""
    return re.sub("[-_]", "", name.removesuffix("Fast").removesuffix("Tokenizer")).lower()


def override(name: str) -> Override | None:
    """Return the override of a tokenizer_class or model_type; None for an unknown name."""
    return _OVERRIDES.get(stem(name))


def override_of(family: Family | None, name: str) -> Override | None:
    """Return the override of a family of another package, if it has the name of a class."""
    if family is None or family.tokenizer_override is None:
        return None
    names = map(stem, (*family.own_types, *family.tokenizer_classes))
    return _FUNCTIONS[family.tokenizer_override] if stem(name) in names else None


def override_normalizer(rust: Tokenizer, added: AddedTokens) -> None:
    """Override case, accents and Chinese characters in the normalizer, as BERT's classes do."""
    if isinstance(rust.normalizer, normalizers.BertNormalizer):
        rust.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=added.options.get("tokenize_chinese_chars", True),
            strip_accents=added.options.get("strip_accents"),  # None: same value as lowercase
            lowercase=added.options.get("do_lower_case", True),
        )


def _override_prefix_space(rust: Tokenizer, added: AddedTokens) -> None:
    # The space before a text, as GPT-2's and RoBERTa's classes do.
    for step in (rust.pre_tokenizer, rust.post_processor):
        if hasattr(step, "add_prefix_space"):
            step.add_prefix_space = bool(added.options.get("add_prefix_space", False))


_FUNCTIONS: Mapping[TokenizerOverride, Override] = {
    "normalizer": override_normalizer,
    "prefix_space": _override_prefix_space,
    "nothing": lambda rust, added: None,
}
_OVERRIDES: Mapping[str, Override] = {
    stem(name): _FUNCTIONS[override] for name, override in index.TOKENIZER_OVERRIDES.items()
}


def _custom_class(auto_map: Any) -> str:
    # Older files list the slow and the fast class without keys.
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    listed = names if isinstance(names, list) else [names]
    return next((name.rpartition(".")[2] for name in listed if isinstance(name, str)), "")
