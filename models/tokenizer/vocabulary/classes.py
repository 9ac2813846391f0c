"""Tokenizer classes whose options go before what tokenizer.json was saved with."""

import re
from collections.abc import Callable, Mapping

from tokenizers import Tokenizer, normalizers

from models.tokenizer.vocabulary.added import Added

Override = Callable[[Tokenizer, Added], None]
"""Puts the options of the files beside tokenizer.json in place of its own."""


def override_letters(rust: Tokenizer, added: Added) -> None:
    """Of BERT's classes: what becomes of letters, accents and Chinese."""
    if isinstance(rust.normalizer, normalizers.BertNormalizer):
        rust.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=added.options.get("tokenize_chinese_chars", True),
            strip_accents=added.options.get("strip_accents"),  # None: as lowercase
            lowercase=added.options.get("do_lower_case", True),
        )


def override_prefix(rust: Tokenizer, added: Added) -> None:
    """Of GPT-2's and RoBERTa's: whether a space is put before a text."""
    for step in (rust.pre_tokenizer, rust.post_processor):
        if hasattr(step, "add_prefix_space"):
            step.add_prefix_space = bool(added.options.get("add_prefix_space", False))


def keep(rust: Tokenizer, added: Added) -> None:
    """Of all others: tokenizer.json is as it is."""


# By model_type of config.json, or the stem of a tokenizer_class, in small letters without signs.
_OVERRIDES: Mapping[str, Override] = {
    **dict.fromkeys(("bert", "distilbert", "electra", "ernie", "nomicbert"), override_letters),
    **dict.fromkeys(("mobilebert", "mpnet", "dpr", "dprquestionencoder"), override_letters),
    "dprcontextencoder": override_letters,
    **dict.fromkeys(("roberta", "gpt2", "gptj", "gptneo"), override_prefix),
    **dict.fromkeys(("qwen2", "qwen3", "clip", "cliptextmodel", "xlmroberta"), keep),
    **dict.fromkeys(("camembert", "t5", "mt5", "albert", "xlnet", "debertav2"), keep),
    **dict.fromkeys(("llama", "mistral", "gemma", "gemma2", "gemma3", "gemma3text"), keep),
}


def find(name: str) -> Override | None:
    """The override of a tokenizer_class, or of a model_type; None for a name that is not known."""
    stem = name.removesuffix("Fast").removesuffix("Tokenizer")
    return _OVERRIDES.get(re.sub("[-_]", "", stem).lower())
