"""The Rust tokenizer: its panics, and its parts that the Python classes do not expose."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from embedwell_models.errors import ModelError


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


class TokenizerPanicError(RuntimeError):
    """The tokenizer panicked: its file is broken in a way that shows only in some texts."""

    def __init__(self, panic: BaseException) -> None:
        super().__init__(f"the tokenizer cannot read a text, its file is broken: {panic}")


def without_panic(error: BaseException) -> BaseException:
    """Return a TokenizerPanicError for a panic, and any other error as it is."""
    # The class of panics cannot be imported: each Rust extension has its own.
    return TokenizerPanicError(error) if type(error).__name__ == "PanicException" else error


@contextmanager
def panics_as_model_errors(folder: Path) -> Iterator[None]:
    """Raise ModelError for a panic while the tokenizer of a folder is loaded.

    Also for an error that a value causes whose type was not checked before its use.
    """
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise ModelError(f"{folder}: its tokenizer's files are inconsistent: {error!r}") from error
    except BaseException as error:
        panic = without_panic(error)
        if isinstance(panic, TokenizerPanicError):
            raise ModelError(f"{folder}: {panic}") from None
        raise
