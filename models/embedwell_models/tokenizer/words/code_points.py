"""The code points that CANINE gives a meaning of their own (arXiv 2103.06874), and its files."""

from collections.abc import Mapping
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

PAD, CLS, SEP, MASK = 0, 0xE000, 0xE001, 0xE003
"""Special tokens: those from CLS on are of Unicode's private use area."""
SIZE = 0x110000
"""The number of code points of Unicode, of which each is a token."""
MAX_LENGTH = 2048
"""Tokens of a text where no file states how many: the default of transformers' class."""
ROLES: Mapping[str, int] = {
    **{"bos": CLS, "eos": SEP, "sep": SEP, "pad": PAD, "cls": CLS, "mask": MASK},
}
NAMES: Mapping[int, str] = {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]", MASK: "[MASK]"}


def is_code_point_tokenizer(folder: Path) -> bool:
    """Whether the tokens of a folder's model are code points: by its class, else its family."""
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    return (name or config.get("model_type", "")) in ("CanineTokenizer", "canine")
