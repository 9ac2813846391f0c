"""Tokenizer classes of transformers whose options override tokenizer.json."""

import re
from collections.abc import Callable, Mapping

from tokenizers import Tokenizer, normalizers

from embedwell_models import families
from embedwell_models.families.family import TokenizerOverride
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens

Override = Callable[[Tokenizer, AddedTokens], None]
"""Function that overrides options of a tokenizer by the files beside tokenizer.json."""


def override_normalizer(rust: Tokenizer, added: AddedTokens) -> None:
    """Override case, accents and Chinese characters in the normalizer, as BERT's classes do."""
    if isinstance(rust.normalizer, normalizers.BertNormalizer):
        rust.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=added.options.get("tokenize_chinese_chars", True),
            strip_accents=added.options.get("strip_accents"),  # None: same value as lowercase
            lowercase=added.options.get("do_lower_case", True),
        )


def override_prefix_space(rust: Tokenizer, added: AddedTokens) -> None:
    """Override the space before a text, as GPT-2's and RoBERTa's classes do."""
    for step in (rust.pre_tokenizer, rust.post_processor):
        if hasattr(step, "add_prefix_space"):
            step.add_prefix_space = bool(added.options.get("add_prefix_space", False))


def override_nothing(rust: Tokenizer, added: AddedTokens) -> None:
    """Leave tokenizer.json unchanged."""


_FUNCTIONS: Mapping[TokenizerOverride, Override] = {
    "normalizer": override_normalizer,
    "prefix_space": override_prefix_space,
    "nothing": override_nothing,
}


def find(name: str) -> Override | None:
    """Return the override of a tokenizer_class or model_type; None for an unknown name."""
    return _OVERRIDES.get(stem(name))


def stem(name: str) -> str:
    """Return the stem of a tokenizer_class, or a model_type, in lowercase without - and _."""
    return re.sub("[-_]", "", name.removesuffix("Fast").removesuffix("Tokenizer")).lower()


_OVERRIDES: Mapping[str, Override] = {
    stem(name): _FUNCTIONS[family.tokenizer_override]
    for family in families.ALL
    if family.tokenizer_override
    for name in (*family.own_types, *family.tokenizer_classes)
}
