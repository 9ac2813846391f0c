"""What the config.json of a decoder says of which tokens see which."""

import re
from collections.abc import Callable

from models.config.json_config import JsonConfig

_KNOWN = (
    "false where that code lets a token see those after it, as for stella_en_1.5B, GritLM, "
    "inf-retriever and LLM2Vec, else true"
)
_KINDS = ("full_attention", "sliding_attention")


def is_causal(raw: JsonConfig, family: str) -> bool:
    """Whether a token sees only those before it; all of them with `is_causal: false`.

    family: what the names of its classes begin with, one or several with '|' between them.

    Raises ModelError where only code of the checkpoint's own would tell, as for those of LLM2Vec
    (BehnamGhader et al. 2024, arXiv 2404.05961): its class is not of the family, or is in a file.
    """
    stated: bool | None = raw.only("is_causal", None, True, False)
    if stated is not None:
        return stated
    known = re.compile(f"({family})(Model|LMHeadModel|DoubleHeadsModel|For[A-Z][A-Za-z]*)")
    own = {
        "architectures": [
            name for name in raw.get("architectures", ()) if not known.fullmatch(name)
        ],
        "auto_map": raw.get("auto_map", {}).get("AutoModel"),
    }
    for key, value in own.items():
        if value:
            raise raw.refusal(key, value, f"any, with is_causal beside it: {_KNOWN}")
    return True


def sliding_window(raw: JsonConfig) -> int | None:
    """The sliding window; null for none, and what transformers takes where it is not told."""
    found: int | None = raw.nullable("sliding_window", 4096)
    return found


def reaches(
    raw: JsonConfig, causal: bool, window: int | None, slides: Callable[[int], bool]
) -> tuple[int | None, ...]:
    """How far the tokens of each layer see.

    slides: whether a layer has the window, where config.json has no layer_types.

    Raises ModelError for a kind of layer that is not implemented.
    """
    layers = range(raw["num_hidden_layers"])
    usual = [_KINDS[window is not None and slides(layer)] for layer in layers]
    kinds = raw.get("layer_types", usual)
    known = _KINDS[:1] if window is None else _KINDS
    if len(kinds) != len(layers) or not set(kinds) <= set(known):
        raise raw.refusal("layer_types", kinds, f"{len(layers)} of {known}")
    # A window that looks back counts the token itself.
    reach = window and window - causal
    return tuple(reach if kind == "sliding_attention" else None for kind in kinds)
