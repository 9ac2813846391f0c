"""Tokenizer classes of transformers whose options override tokenizer.json."""

import re
from collections.abc import Callable, Mapping

from tokenizers import Tokenizer, normalizers

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


# Keys: model_type of config.json or the stem of a tokenizer_class, in lowercase without - and _.
_OVERRIDES: Mapping[str, Override] = {
    **dict.fromkeys(("bert", "distilbert", "electra", "ernie", "nomicbert"), override_normalizer),
    **dict.fromkeys(("mobilebert", "mpnet", "dpr", "dprquestionencoder"), override_normalizer),
    **dict.fromkeys(("dprcontextencoder", "funnel"), override_normalizer),
    **dict.fromkeys(("roberta", "gpt2", "gptj", "gptneo"), override_prefix_space),
    **dict.fromkeys(("qwen2", "qwen3", "clip", "cliptextmodel", "xlmroberta"), override_nothing),
    **dict.fromkeys(("camembert", "t5", "mt5", "albert", "xlnet", "debertav2"), override_nothing),
    **dict.fromkeys(("llama", "mistral", "gemma", "gemma2", "gemma3"), override_nothing),
    "gemma3text": override_nothing,
}


def find(name: str) -> Override | None:
    """Return the override of a tokenizer_class or model_type; None for an unknown name."""
    stem = name.removesuffix("Fast").removesuffix("Tokenizer")
    return _OVERRIDES.get(re.sub("[-_]", "", stem).lower())
