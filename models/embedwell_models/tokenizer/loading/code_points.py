"""Loading of a tokenizer of code points, which has options but no vocabulary."""

from pathlib import Path

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens
from embedwell_models.tokenizer.loading.tokenizer_class import TokenizerClass
from embedwell_models.tokenizer.words.code_point_tokenizer import CodePointTokenizer
from embedwell_models.tokenizer.words.code_points import ROLES


def read(folder: Path, lowercase: bool, special_tokens: bool) -> CodePointTokenizer:
    """Read the tokenizer of a folder.

    Raises ModelError for remote code, for lowercasing, and for special tokens other than CANINE's.
    """
    TokenizerClass.read(folder)
    if lowercase:
        raise ModelError(f"{folder}: do_lower_case is not supported with CanineTokenizer")
    tokens = AddedTokens(folder, {}).special
    for role, token in tokens.items():
        if role not in ROLES or token.content != chr(ROLES[role]):
            raise ModelError(
                f"{folder}: {role}_token = {token.content!r} is not supported: it is not CANINE's"
            )
    mask = tokens.get("mask")
    return CodePointTokenizer(special_tokens, strips_mask=mask is not None and mask.lstrip)
