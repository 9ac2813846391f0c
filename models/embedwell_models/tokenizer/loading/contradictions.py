"""Options of tokenizer_config.json that contradict tokenizer.json.

transformers 5 builds the tokenizer of some classes from these options, transformers 4 reads
tokenizer.json: where the two differ, nobody knows with which a model was trained.
"""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading import tokenizer_class
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens

log = logging.getLogger(__name__)

FRAMES: Mapping[str, tuple[str, ...]] = {  # stem of a class -> roles of the tokens around a text
    **dict.fromkeys(("roberta", "albert", "xlnet", "debertav2"), ("cls", "sep")),
    **dict.fromkeys(("xlmroberta", "camembert", "clip", "cliptextmodel"), ("bos", "eos")),
    **dict.fromkeys(("t5", "mt5"), ("eos",)),
}


def _allows_prefix(rust: Tokenizer, stated: Any) -> bool:
    return bool(stated) == any(part in _steps(rust) for part in (*_ALWAYS, _FIRST))


def _allows_prefix_of_parts(rust: Tokenizer, stated: Any) -> bool:
    # False puts a space before the text, but not before the parts after special tokens.
    return bool(stated) == any(part in _steps(rust) for part in _ALWAYS)


def _allows_lowercase(rust: Tokenizer, stated: Any) -> bool:
    return bool(stated) == _same(rust, "THE ABC", "the abc")


def _allows_accents(rust: Tokenizer, stated: Any) -> bool:
    return bool(stated) != _same(rust, "é", "e")


def _allows_punctuation(rust: Tokenizer, stated: Any) -> bool:
    return bool(stated) == ('"Punctuation"' in _state(rust.pre_tokenizer))


def _allows_unknown_id(rust: Tokenizer, stated: Any) -> bool:
    return bool(stated == json.loads(_state(rust.model)).get("unk_id", stated))


# How tokenizer.json says that a space precedes each part, or the text alone.
_ALWAYS = ('"prepend_scheme":"always"', '"add_prefix_space":true', '"type":"Prepend"')
_FIRST = '"prepend_scheme":"first"'
_PREFIX = {"add_prefix_space": _allows_prefix}
_LOWERCASE = {"do_lower_case": _allows_lowercase}
OPTIONS: Mapping[str, Mapping[str, Callable[[Tokenizer, Any], bool]]] = {
    # Stem of a class -> option -> whether the tokenizer of the file has its value.
    **dict.fromkeys(("qwen2", "qwen3", "llama", "mistral", "xlmroberta", "camembert"), _PREFIX),
    "albert": {**_PREFIX, **_LOWERCASE, "keep_accents": _allows_accents},
    "debertav2": {
        **_LOWERCASE,
        "add_prefix_space": _allows_prefix_of_parts,
        "split_by_punct": _allows_punctuation,
        "unk_id": _allows_unknown_id,
    },
    "xlnet": {**_LOWERCASE, "unk_id": _allows_unknown_id},
}


def refuse(rust: Tokenizer, added: AddedTokens, name: str) -> None:
    """Raise ModelError for an option that a class and tokenizer.json understand differently.

    rust: the tokenizer of the file with the overrides of its class. name: class or model_type.
    """
    if added.options.get("split_special_tokens"):
        raise ModelError("tokenizer_config.json: split_special_tokens = True is not supported")
    kind = tokenizer_class.stem(name)
    for option, allows in OPTIONS.get(kind, {}).items():
        stated = added.options.get(option)
        if stated is not None and not allows(rust, stated):
            raise _contradiction(option, stated)
    is_bert = tokenizer_class.override(name) is tokenizer_class.override_normalizer
    expected = dict.fromkeys(("cls", "sep") if is_bert else FRAMES.get(kind, ()), _frame(rust))
    if is_bert and isinstance(rust.model, models.WordPiece):
        expected["unk"] = [rust.model.unk_token]
    for role, tokens in expected.items():
        key, token = f"{role}_token", added.special.get(role)
        if tokens and token and token.content not in tokens:
            raise _contradiction(key, token.content)
        if tokens and added.options.get(key, "") is None:
            raise _contradiction(key, None)


def warn(folder: Path, rust: Tokenizer, added: AddedTokens) -> None:
    """Log a warning for add_bos_token or add_eos_token that the post-processor does not follow."""
    ids = rust.encode("").ids
    for role in ("bos", "eos"):
        stated, token = added.options.get(f"add_{role}_token"), added.special.get(role)
        if stated is None or token is None:
            continue
        if bool(stated) != (rust.token_to_id(token.content) in ids):
            log.warning(
                "%s: tokenizer_config.json says add_%s_token: %s, but the post-processor in "
                "tokenizer.json %s %s, which is followed: change one of the two if vectors are "
                "wrong",
                *(folder, role, str(bool(stated)).lower()),
                *("does not add" if stated else "adds", token.content),
            )


def _frame(rust: Tokenizer) -> list[str]:
    return list(rust.encode("").tokens)


def _same(rust: Tokenizer, one: str, other: str) -> bool:
    return bool(rust.encode(one).ids == rust.encode(other).ids)


def _steps(rust: Tokenizer) -> str:
    return _state(rust.pre_tokenizer) + _state(rust.normalizer)


def _state(step: Any) -> str:
    return "" if step is None else step.__getstate__().decode()


def _contradiction(option: str, stated: Any) -> ModelError:
    return ModelError(
        f"tokenizer_config.json or special_tokens_map.json: {option} = {stated!r} contradicts "
        "tokenizer.json. Remove it if tokenizer.json is right; if not, load and save the tokenizer "
        "with transformers"
    )
