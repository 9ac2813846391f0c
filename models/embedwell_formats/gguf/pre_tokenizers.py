"""Splits of texts before byte-level BPE, by `tokenizer.ggml.pre` of GGUF files.

The names are llama.cpp's, the patterns those of tokenizer.json of the models that they name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from embedwell_formats.gguf.file import Metadata

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|"


@dataclass(frozen=True)
class PreTokenizer:
    """pattern: splits a text; None for GPT-2's pattern, which is a step of its own.

    single_digits: whether each digit is split first. nfc: whether texts are normalised. merged:
    whether a word of the vocabulary needs no merges. begins, ends: whether texts of a file that
    does not say so have a token before and after them.
    """

    pattern: str | None = None
    single_digits: bool = False
    nfc: bool = False
    merged: bool = False
    begins: bool = False
    ends: bool = False


_OF_ROBERTA = (
    *("roberta-bpe", "jina-v1-en", "jina-v2-en", "jina-v2-code", "jina-v2-de", "jina-v2-es"),
    *("jina-de", "jina-es"),
)
_GPT2 = PreTokenizer()
_ROBERTA = PreTokenizer(begins=True, ends=True)
_QWEN2 = PreTokenizer(rf"{_LETTERS}\p{{N}}{_REST}", nfc=True)
_LLAMA3 = PreTokenizer(rf"{_LETTERS}\p{{N}}{{1,3}}{_REST}", merged=True, begins=True)
_QWEN35 = PreTokenizer(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    nfc=True,
)
_TEKKEN = PreTokenizer(
    _CASED + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+", merged=True, begins=True
)
PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    "qwen35": _QWEN35,
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _LLAMA3),
    "tekken": _TEKKEN,
    **dict.fromkeys(("smollm", "starcoder"), PreTokenizer(single_digits=True)),
    "gpt-2": _GPT2,
    "modern-bert": PreTokenizer(nfc=True, begins=True, ends=True),
    **dict.fromkeys(_OF_ROBERTA, _ROBERTA),
}
_OF_ARCHITECTURE = {
    **dict.fromkeys(("bert", "jina-bert-v2"), "roberta-bpe"),
    "modern-bert": "modern-bert",
    **dict.fromkeys(("qwen2", "qwen3", "qwen3vl"), "qwen2"),
    "qwen35": "qwen35",
}
"""Names by the family, for files of older converters, which state none, or "default"."""


def pre_tokenizer(metadata: Metadata) -> PreTokenizer:
    """Return the pre-tokenizer of a file; raises ModelError for one that is not read."""
    name = metadata.tokenizer("pre", "default")
    if name == "default":
        name = _OF_ARCHITECTURE.get(metadata.architecture, name)
    if name not in PRE_TOKENIZERS:
        raise metadata.unsupported("tokenizer.ggml.pre", name, tuple(PRE_TOKENIZERS))
    pre_tokenizer = PRE_TOKENIZERS[name]
    # RoBERTa's tokenizer has the pattern of GPT-2, and a file may name it so.
    is_roberta = pre_tokenizer is _GPT2 and metadata.architecture in ("bert", "jina-bert-v2")
    return _ROBERTA if is_roberta else pre_tokenizer
