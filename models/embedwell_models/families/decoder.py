"""Causal masks and sliding windows of decoders, from config.json."""

import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

_HINT = "false where that code lets a token see those after it, else true"
_KINDS = ("full_attention", "sliding_attention")
_BIDIRECTIONAL = Path(__file__).with_name("bidirectional_code.toml")


def is_causal(options: JsonConfig, family: str) -> bool:
    """Whether a token attends only to earlier tokens; `is_causal: false` in config.json says no.

    Without this key, the name of code that is known to be bidirectional says no, too.

    family: prefixes of its class names, separated by '|'.

    Raises ModelError if only the checkpoint's own code decides it, because its class is not of the
    family or is in a file of the folder.
    """
    stated: bool | None = options.require("is_causal", None, True, False)
    if stated is not None:
        return stated
    if bidirectional_code(options):
        return False
    family_class = re.compile(f"({family})(Model|LMHeadModel|DoubleHeadsModel|For[A-Z][A-Za-z]*)")
    custom_code = {
        "architectures": [
            name for name in options.get("architectures", ()) if not family_class.fullmatch(name)
        ],
        "auto_map": options.get("auto_map", {}).get("AutoModel"),
    }
    for key, value in custom_code.items():
        if value:
            raise options.unsupported(key, value, f"any, with is_causal beside it: {_HINT}")
    return True


def bidirectional_code(options: JsonConfig) -> str:
    """Name a decoder's own code if it is known to let each token see the whole text; "" otherwise.

    Examples are LLM2Vec (BehnamGhader et al. 2024, arXiv 2404.05961) and DRAMA (Ma et al. 2025,
    arXiv 2502.18460). It is "" as well if config.json has `is_causal`.
    """
    if "is_causal" in options:
        return ""
    known_class, repositories = _known_code()
    code = str(options.get("auto_map", {}).get("AutoModel", ""))
    named, _, path = code.rpartition("--")
    for name in (path.rpartition(".")[2], *options.get("architectures", ())):
        if known_class.fullmatch(name):
            return str(name)
    # Folders of the hub's cache, models--organisation--name, and of converted models.
    parts = (part.removeprefix("models--").replace("--", "/", 1) for part in options.path.parts)
    return min(repositories & {named, *parts}, default="")


@cache
def _known_code() -> tuple[re.Pattern[str], frozenset[str]]:
    # The classes and the repositories in the data file.
    known = tomllib.loads(_BIDIRECTIONAL.read_text(encoding="utf-8"))
    return re.compile("|".join(known["classes"])), frozenset(known["repositories"])


def sliding_window(options: JsonConfig) -> int | None:
    """Return the sliding window: None if it is null, transformers' default if it is missing."""
    window: int | None = options.nullable("sliding_window", 4096)
    return window


def layer_windows(
    options: JsonConfig, causal: bool, window: int | None, slides: Callable[[int], bool]
) -> tuple[int | None, ...]:
    """Return the number of visible tokens on each side for each layer; None for the whole text.

    slides: whether a layer has the window; used if config.json has no layer_types.

    Raises ModelError for a kind of layer that is not implemented.
    """
    layers = range(options["num_hidden_layers"])
    default = [_KINDS[window is not None and slides(layer)] for layer in layers]
    kinds = options.get("layer_types", default)
    supported = _KINDS[:1] if window is None else _KINDS
    if len(kinds) != len(layers) or not set(kinds) <= set(supported):
        raise options.unsupported("layer_types", kinds, f"{len(layers)} of {supported}")
    # A causal window counts the token itself.
    visible = window and window - causal
    return tuple(visible if kind == "sliding_attention" else None for kind in kinds)
