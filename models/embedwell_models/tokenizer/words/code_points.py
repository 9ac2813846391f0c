"""Code points with a special meaning in CANINE (arXiv 2103.06874), and detection of its folders."""

from collections.abc import Mapping
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

PAD, CLS, SEP, MASK = 0, 0xE000, 0xE001, 0xE003
"""Special tokens; from CLS on they are in Unicode's private use area."""
SIZE = 0x110000
"""Number of Unicode code points, each of which is a token."""
MAX_LENGTH = 2048
"""Default maximum number of tokens of a text, as in transformers' class."""
ROLES: Mapping[str, int] = {
    **{"bos": CLS, "eos": SEP, "sep": SEP, "pad": PAD, "cls": CLS, "mask": MASK},
}
NAMES: Mapping[int, str] = {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]", MASK: "[MASK]"}


def is_code_point_tokenizer(folder: Path) -> bool:
    """Whether the tokens of a folder's model are code points, by its class or else its family."""
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    return (name or config.get("model_type", "")) in ("CanineTokenizer", "canine")
