"""Refusal of models whose remote code (`auto_map`) no family replaces; it is never run."""

from collections.abc import Mapping, Sequence

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.decoder import bidirectional_code

_PLAMO = (
    "what PLaMo-Embedding-1B computes, which tokens it pools, and how its tokenizer splits words"
)
_COLEMBED = "into how many tiles it cuts an image, and which text it puts around them"
_ONLY_CODE: Mapping[str, str] = {  # model_type or class -> facts that only the code tells
    "jasper_vl": "how Jasper reads texts and images, and which of its matrices follow the pooling",
    "LlamaNemotronColEmbedVLModel": _COLEMBED,
    "llama_NemoRetrieverColEmbed": _COLEMBED,
    "plamo": _PLAMO,
    "PlamoBiModel": _PLAMO,
}


def refuse_undescribed(options: JsonConfig) -> None:
    """Raise ModelError, with the reason, for a model that only its own code describes."""
    names = [options.get("model_type", ""), *options.get("architectures", [])]
    for name in names:
        if name in _ONLY_CODE:
            raise ModelError(
                f"{options.path}: {name} is not supported: only code of the model, which is not "
                f"run, says {_ONLY_CODE[name]}"
            )


def refuse_unknown_code(options: JsonConfig, replaced: Sequence[str]) -> None:
    """Raise ModelError if config.json names remote code that is not among the replaced classes.

    A decoder with `is_causal` in config.json is accepted, and one whose code is known to be
    bidirectional, see families.decoder.
    """
    code = options.get("auto_map", {}).get("AutoModel")
    if code is None or "is_causal" in options or bidirectional_code(options):
        return
    if str(code).rpartition(".")[2] not in replaced:
        raise options.unsupported(
            "auto_map", {"AutoModel": code}, f"{replaced}; code of a model is not run"
        )
