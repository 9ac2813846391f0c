"""Loading of tokenizer.json or a vocabulary, with the options of the JSON files beside it."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.loading import added_tokens, class_overrides
from embedwell_models.tokenizer.loading.added_tokens import AddedTokens
from embedwell_models.tokenizer.loading.tokenizer_class import TokenizerClass
from embedwell_models.tokenizer.segmented import readers

_ENDED = ("nvembed",)  # model types whose own code adds eos_token after each text
_TEMPLATE = "TemplateProcessing"


def load(folder: Path) -> Tokenizer:
    """Load a folder's tokenizer like transformers, by the tokenizer class that its files name.

    Raises ModelError for a class in remote code.
    """
    tokenizer_class = TokenizerClass.read(folder)
    reader = readers.find(folder)
    rust = reader.read(folder, special(folder)) if reader else _from_file(folder)
    added = AddedTokens(folder, rust.get_added_tokens_decoder())
    override = class_overrides.find(tokenizer_class.name)
    if override is not None:
        override(rust, added)
    added.add(rust)
    if _adds_eos(folder, tokenizer_class, added):
        _append_eos(rust, added.name("eos"))
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


def _from_file(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _adds_eos(folder: Path, tokenizer_class: TokenizerClass, added: AddedTokens) -> bool:
    if JsonConfig.optional(folder / "config.json").get("model_type", "") in _ENDED:
        return True
    # transformers' classes ignore add_eos_token and use the file's template.
    return tokenizer_class.custom and bool(added.options.get("add_eos_token"))


def _append_eos(rust: Tokenizer, eos: str) -> None:
    if rust.encode("").tokens[-1:] == [eos]:
        return
    steps = [] if rust.post_processor is None else _steps(rust.post_processor)
    # A second template would treat the special tokens around a text as further texts.
    if not steps or steps[-1]["type"] != _TEMPLATE:
        steps += _steps(processors.TemplateProcessing(single=["$A"], special_tokens=[]))
    steps[-1]["single"].append({"SpecialToken": {"id": eos, "type_id": 0}})
    token = {"id": eos, "ids": [rust.token_to_id(eos)], "tokens": [eos]}
    steps[-1]["special_tokens"][eos] = token
    ended = processors.Sequence([])
    ended.__setstate__(json.dumps({"type": "Sequence", "processors": steps}).encode())
    rust.post_processor = ended


def _steps(post_processor: processors.PostProcessor) -> list[dict[str, Any]]:
    state = json.loads(post_processor.__getstate__())
    steps: list[dict[str, Any]] = state["processors"] if state["type"] == "Sequence" else [state]
    return steps
