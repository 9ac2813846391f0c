"""The steps of a Rust tokenizer, as its file states them."""

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer


def steps(rust: Tokenizer) -> list[dict[str, Any]]:
    """The normalisers and pre-tokenizers, in order, without the sequences that hold them."""
    found = [step for step in (rust.normalizer, rust.pre_tokenizer) if step is not None]
    return [flat for step in found for flat in _flat(json.loads(step.__getstate__()))]


def _flat(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if state["type"] != "Sequence":
        yield state
    for inner in [*state.get("normalizers", []), *state.get("pretokenizers", [])]:
        yield from _flat(inner)
