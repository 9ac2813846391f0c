"""Parts of a Rust tokenizer that its Python classes do not expose, read from its JSON."""

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer, models


def part_options(part: Any) -> list[dict[str, Any]]:
    """Return the options of a part of a tokenizer, flattened if it is a sequence; [] for None."""
    return [] if part is None else [*_flatten(_state(part))]


def options_before_model(rust: Tokenizer) -> list[dict[str, Any]]:
    """Return the options of all normalizers, then of all pre-tokenizers."""
    return part_options(rust.normalizer) + part_options(rust.pre_tokenizer)


def unknown_id(rust: Tokenizer) -> int | None:
    """Return the id of the token for unknown words; None if there is none."""
    if isinstance(rust.model, models.Unigram):
        return json.loads(rust.to_str())["model"]["unk_id"]  # type: ignore[no-any-return]
    return rust.token_to_id(getattr(rust.model, "unk_token", None) or "")


def _state(part: Any) -> dict[str, Any]:
    try:
        return json.loads(part.__getstate__())  # type: ignore[no-any-return]
    except Exception:  # a step in Python has no JSON; no narrower exception is raised
        return {"type": "Custom"}


def _flatten(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if state["type"] != "Sequence":
        yield state
    for key in ("normalizers", "pretokenizers", "processors"):
        for inner in state.get(key, []):
            yield from _flatten(inner)
