"""Reduction of a tokenizer.json to the tokens of some texts."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from embedwell_models.errors import ModelError

NewIds = Mapping[int, int]
"""The new id of each token that remains."""


def cut(tokenizer: dict[str, Any], used: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """Return a tokenizer without unused tokens, and the old ids of the tokens that remain.

    Used tokens come first, in the given order; tokens outside the model's vocabulary come last.
    Added tokens, the unknown token and single characters always remain. A text with only used
    tokens is split as before: WordPiece takes the longest tokens and Unigram the likeliest tokens,
    and both choices stay available. Raises ModelError for another kind of model.
    """
    kind = tokenizer["model"]["type"]
    if kind not in _CUTS:
        raise ModelError(f"a vocabulary of {kind} cannot be cut; supported: {', '.join(_CUTS)}")
    added: set[int] = {token["id"] for token in tokenizer.get("added_tokens", [])}
    names = _names(tokenizer["model"])
    single = {id for id, name in names.items() if len(name.removeprefix("##")) == 1}
    unknown = {id for id in names if id == _unknown(tokenizer["model"], names)}
    order = {id: place for place, id in enumerate(used)}
    kept_ids = sorted(
        ({*used} | added | single | unknown) & {*names, *added},
        key=lambda id: (id not in names, order.get(id, len(order)), id),
    )
    new_ids = {id: new_id for new_id, id in enumerate(kept_ids)}
    result = json.loads(json.dumps(tokenizer))
    _CUTS[kind](result["model"], new_ids)
    for token in result.get("added_tokens", []):
        token["id"] = new_ids[token["id"]]
    result["post_processor"] = None  # holds old ids; texts of a table get no special tokens
    return result, kept_ids


def _names(model: dict[str, Any]) -> Mapping[int, str]:
    if isinstance(model["vocab"], list):
        return dict(enumerate(name for name, _ in model["vocab"]))
    return {id: name for name, id in model["vocab"].items()}


def _unknown(model: dict[str, Any], names: Mapping[int, str]) -> int | None:
    if "unk_id" in model:
        id: int | None = model["unk_id"]
        return id
    return next((id for id, name in names.items() if name == model.get("unk_token")), None)


def _cut_words(model: dict[str, Any], new_ids: NewIds) -> None:
    model["vocab"] = {name: new_ids[id] for name, id in model["vocab"].items() if id in new_ids}


def _cut_scores(model: dict[str, Any], new_ids: NewIds) -> None:
    scored_tokens = model["vocab"]
    if any(id >= len(scored_tokens) for id in new_ids):
        raise ModelError("an added token is missing in the Unigram vocabulary, which cannot be cut")
    model["vocab"] = [scored_tokens[id] for id in new_ids]
    if model["unk_id"] is not None:
        model["unk_id"] = new_ids[model["unk_id"]]


_CUTS: Mapping[str, Callable[[dict[str, Any], NewIds], None]] = {
    "WordPiece": _cut_words,
    "WordLevel": _cut_words,
    "Unigram": _cut_scores,
}
