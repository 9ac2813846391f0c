"""Special and added tokens in the JSON files next to tokenizer.json."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from embedwell_models.config.json_config import read_object
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import TOKEN_FILES

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
