"""Files next to tokenizer.json: added tokens, overrides by the class they name, contradictions.

transformers 5 builds the tokenizer of some classes from options of tokenizer_config.json,
transformers 4 reads tokenizer.json: where the two differ, nobody knows with which a model was
trained.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers

from embedwell_models.config.json_config import JsonConfig, read_object
from embedwell_models.errors import ModelError
from embedwell_models.families import index
from embedwell_models.families.family import Family, TokenizerOverride
from embedwell_models.tokenizer.loading.tokenizer_kind import TOKEN_FILES, read_name, stem

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class AddedTokens:
    """Tokenizer options and added tokens of a folder.

    options: options of tokenizer_config.json; in older checkpoints also of special_tokens_map.json.
    special: role (one of ROLES) -> token, for the roles that the model has.
    """

    def __init__(self, folder: Path, file_tokens: Mapping[int, AddedToken]) -> None:
        """file_tokens: id -> added token in tokenizer.json."""
        config, special_map, ids = (_read(folder / name) for name in TOKEN_FILES)
        decoder = config.get("added_tokens_decoder")
        self.options = config if decoder is not None else {**config, **special_map}
        special = _special_tokens(self.options)
        extra = _extra_tokens(config, {} if decoder is not None else special_map)
        older = _older_tokens(ids, [*special.values(), *extra]) if decoder is None else {}
        tokens = [*older.items(), *file_tokens.items(), *(decoder or {}).items()]
        self._tokens = {int(id): _token(token, False) for id, token in tokens}
        by_text = {token.content: token for token in self._tokens.values()}
        self._extra = [by_text.get(token.content, token) for token in extra]
        self.special = {role: by_text.get(token.content, token) for role, token in special.items()}

    def name(self, role: str) -> str:
        """Return the text of a special token; raises ModelError if the model has none."""
        if role not in self.special:
            raise ModelError(f"tokenizer_config.json has no {role}_token, which this family needs")
        return self.special[role].content

    def add(self, rust: Tokenizer) -> None:
        """Add all tokens; raises ModelError if a token gets another id than in the files."""
        rust.add_tokens([self._tokens[id] for id in sorted(self._tokens)])
        rust.add_special_tokens([*self.special.values(), *self._extra])
        for id, token in self._tokens.items():
            if rust.token_to_id(token.content) != id:
                raise ModelError(
                    f"the added token {token.content!r} has id {rust.token_to_id(token.content)} "
                    f"in the vocabulary and {id} next to it"
                )


def by_role(folder: Path) -> dict[str, str]:
    """Return role -> special token, for the roles in a folder's files."""
    return {role: token.content for role, token in AddedTokens(folder, {}).special.items()}


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if os.path.lexists(path) else {}


def _special_tokens(options: Mapping[str, Any]) -> dict[str, AddedToken]:
    tokens = {role: options.get(f"{role}_token") for role in ROLES}
    return {role: _token(token, True) for role, token in tokens.items() if token}


def _extra_tokens(config: Mapping[str, Any], special_map: Mapping[str, Any]) -> list[AddedToken]:
    # As in transformers, the lists of extra tokens in both files are joined.
    stated, more = (options.get("extra_special_tokens") or [] for options in (config, special_map))
    stated = stated or config.get("additional_special_tokens") or []
    joined = [*stated, *more] if isinstance(stated, list) and isinstance(more, list) else more
    extra = joined or stated or special_map.get("additional_special_tokens") or []
    return [_token(token, True) for token in (extra.values() if isinstance(extra, dict) else extra)]


def _older_tokens(ids: Mapping[str, int], special: list[AddedToken]) -> dict[int, AddedToken]:
    # added_tokens.json has no options for the tokens.
    special_texts = {token.content for token in special}
    return {
        id: AddedToken(text, special=text in special_texts, normalized=text not in special_texts)
        for text, id in ids.items()
    }


def _token(token: str | AddedToken | Mapping[str, Any], special: bool) -> AddedToken:
    if isinstance(token, AddedToken):
        return token
    if isinstance(token, str):
        return AddedToken(token, special=special)
    names = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return AddedToken(
        **{"special": special, **{name: token[name] for name in names if name in token}}
    )


# Stems of the classes, and model types, whose tokenizers return segments.
_WITH_SEGMENTS = (
    *("bert", "convbert", "deberta", "debertav2", "dprcontextencoder", "dprquestionencoder"),
    *("electra", "ernie", "layoutlm", "lxmert", "mobilebert", "nomicbert", "squeezebert"),
)
Override = Callable[[Tokenizer, AddedTokens], None]
"""Function that overrides options of a tokenizer by the files next to tokenizer.json."""


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


log = logging.getLogger(__name__)

ROLES_AROUND: Mapping[
    str, tuple[str, ...]
] = {  # stem of a class -> roles of the tokens around a text
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


def refuse_contradictions(rust: Tokenizer, added: AddedTokens, name: str) -> None:
    """Raise ModelError for an option that a class and tokenizer.json understand differently.

    rust: the tokenizer of the file with the overrides of its class. name: class or model_type.
    """
    if added.options.get("split_special_tokens"):
        raise ModelError("tokenizer_config.json: split_special_tokens = True is not supported")
    kind = stem(name)
    for option, allows in OPTIONS.get(kind, {}).items():
        stated = added.options.get(option)
        if stated is not None and not allows(rust, stated):
            raise _contradiction(option, stated)
    is_bert = override(name) is override_normalizer
    expected = dict.fromkeys(
        ("cls", "sep") if is_bert else ROLES_AROUND.get(kind, ()), _tokens_around(rust)
    )
    if is_bert and isinstance(rust.model, models.WordPiece):
        expected["unk"] = [rust.model.unk_token]
    for role, tokens in expected.items():
        key, token = f"{role}_token", added.special.get(role)
        if tokens and token and token.content not in tokens:
            raise _contradiction(key, token.content)
        if tokens and added.options.get(key, "") is None:
            raise _contradiction(key, None)


def warn_of_special_tokens(folder: Path, rust: Tokenizer, added: AddedTokens) -> None:
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


def _tokens_around(rust: Tokenizer) -> list[str]:
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
