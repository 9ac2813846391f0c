"""The special and the added tokens that a checkpoint's JSON files name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from models.config.json_config import read_object
from models.errors import ModelError

FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class Added:
    """What a folder says beside its tokenizer.json.

    options: tokenizer_config.json, in older checkpoints with special_tokens_map.json.
    special: role (one of ROLES) -> token, for the roles that the model has.
    """

    def __init__(self, folder: Path, saved: Mapping[int, AddedToken]) -> None:
        """saved: id -> token of tokenizer.json."""
        own, named, stated = (_read(folder / name) for name in FILES)
        listed = own.get("added_tokens_decoder")
        self.options = own if listed is not None else {**own, **named}
        given, extra = _special(self.options), _extra(self.options)
        older = _older(stated, [*given.values(), *extra]) if listed is None else {}
        tokens = [*older.items(), *saved.items(), *(listed or {}).items()]
        self._tokens = {int(id): _token(token, False) for id, token in tokens}
        written = {token.content: token for token in self._tokens.values()}
        self._extra = [written.get(token.content, token) for token in extra]
        self.special = {role: written.get(token.content, token) for role, token in given.items()}

    def name(self, role: str) -> str:
        """The text of a special token; raises ModelError when the model has none."""
        if role not in self.special:
            raise ModelError(
                f"tokenizer_config.json gives no {role}_token, which this family needs"
            )
        return self.special[role].content

    def add(self, rust: Tokenizer) -> None:
        """Add them all; raises ModelError for one that gets another id than the files say."""
        rust.add_tokens([self._tokens[id] for id in sorted(self._tokens)])
        rust.add_special_tokens([*self.special.values(), *self._extra])
        for id, token in self._tokens.items():
            if rust.token_to_id(token.content) != id:
                raise ModelError(
                    f"the added token {token.content!r} has id {rust.token_to_id(token.content)} "
                    f"in the vocabulary and {id} beside it"
                )


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) if path.exists() else {}


def _special(options: Mapping[str, Any]) -> dict[str, AddedToken]:
    given = {role: options.get(f"{role}_token") for role in ROLES}
    return {role: _token(token, True) for role, token in given.items() if token}


def _extra(options: Mapping[str, Any]) -> list[AddedToken]:
    extra = options.get("extra_special_tokens") or options.get("additional_special_tokens") or []
    return [_token(token, True) for token in (extra.values() if isinstance(extra, dict) else extra)]


def _older(stated: Mapping[str, int], special: list[AddedToken]) -> dict[int, Any]:
    # added_tokens.json says the ids only.
    known = {token.content for token in special}
    return {
        id: AddedToken(text, special=text in known, normalized=text not in known)
        for text, id in stated.items()
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
