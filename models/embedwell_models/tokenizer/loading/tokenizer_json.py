"""Loading of tokenizer.json or a vocabulary, with the options of the JSON files beside it."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers, processors

from embedwell_models import families
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.loading import added_tokens, contradictions, tokenizer_class
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens
from embedwell_models.tokenizer.rust_parts import part_options
from embedwell_models.tokenizer.segmented import readers

_TEMPLATE = "TemplateProcessing"

log = logging.getLogger(__name__)


def load(folder: Path) -> Tokenizer:
    """Load a folder's tokenizer like transformers, by the tokenizer class that its files name.

    Raises ModelError for a class in remote code, and for options that contradict tokenizer.json.
    """
    name = tokenizer_class.read_name(folder)
    override = tokenizer_class.override(name)
    reader = readers.find(folder)
    rust = reader.read(folder, special(folder)) if reader else _from_file(folder)
    added = AddedTokens(folder, rust.get_added_tokens_decoder())
    if override is not None:
        override(rust, added)
    if tokenizer_class.lowercases(folder, name):
        lowercase_first(rust)
    if reader is None:
        contradictions.refuse(rust, added, name)
    added.add(rust)
    if _adds_eos(folder, added):
        _append_eos(rust, added.name("eos"))
    _warn_of_contradictions(folder, rust, added)
    return rust


def special(folder: Path) -> dict[str, str]:
    """Return role -> special token, for the roles in a folder's files or tokenizer class."""
    reader = readers.find(folder)
    return {**(reader.special if reader else {}), **added_tokens.by_role(folder)}


def load_file_only(folder: Path) -> Tokenizer:
    """Load only tokenizer.json, without special tokens around a text."""
    rust = _from_file(folder)
    rust.post_processor = None
    return rust


def lowercase_first(rust: Tokenizer) -> None:
    """Lowercase texts before the other steps of the normalizer."""
    further = [] if rust.normalizer is None else [rust.normalizer]
    rust.normalizer = normalizers.Sequence([normalizers.Lowercase(), *further])


def _from_file(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _adds_eos(folder: Path, added: AddedTokens) -> bool:
    # transformers 4 and the models' authors follow add_eos_token; transformers 5 ignores it.
    model_type = JsonConfig.optional(folder / "config.json").get("model_type", "")
    family = families.BY_MODEL_TYPE.get(model_type)
    return bool(added.options.get("add_eos_token")) or (family is not None and family.ends_texts)


def _append_eos(rust: Tokenizer, eos: str) -> None:
    if rust.encode("").tokens[-1:] == [eos]:
        return
    parts = part_options(rust.post_processor)
    # A second template would treat the special tokens around a text as further texts.
    if not parts or parts[-1]["type"] != _TEMPLATE:
        parts += part_options(processors.TemplateProcessing(single=["$A"], special_tokens=[]))
    template = parts[-1]
    template["single"] = [*template["single"], _special(eos, template["single"][-1])]
    template["pair"] = _ended_pair(template["pair"], eos)
    template["special_tokens"][eos] = {"id": eos, "ids": [rust.token_to_id(eos)], "tokens": [eos]}
    ended = processors.Sequence([])
    ended.__setstate__(json.dumps({"type": "Sequence", "processors": parts}).encode())
    rust.post_processor = ended


def _ended_pair(parts: Sequence[dict[str, Any]], eos: str) -> list[dict[str, Any]]:
    """Add the end token after each text of a pair, as transformers 4 does."""
    ended = []
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        ended.append(part)
        is_first_text = part.get("Sequence", {}).get("id") == "A"
        if (is_first_text and not _names(following, eos)) or following is None:
            ended.append(_special(eos, part))
    return ended


def _special(token: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return a special token of a template, in the segment of the part before it."""
    (part,) = before.values()
    return {"SpecialToken": {"id": token, "type_id": part["type_id"]}}


def _names(part: dict[str, Any] | None, token: str) -> bool:
    return part is not None and part.get("SpecialToken", {}).get("id") == token


def _warn_of_contradictions(folder: Path, rust: Tokenizer, added: AddedTokens) -> None:
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
