"""How a sentence vector is made: the files that sentence-transformers lays beside an encoder."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.blueprint import read_json
from models.errors import ModelError

# The booleans of the older schema of 1_Pooling/config.json -> the names of the newer one.
_BOOLEANS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODES = tuple(_BOOLEANS.values())


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """Everything between a text and its vector that is not the encoder.

    max_length: tokens, special ones included. pooling: names, concatenated when several.
    """

    max_length: int
    pooling: tuple[str, ...] = ("mean",)
    normalize: bool = False
    lowercase: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str = ""

    @classmethod
    def read(cls, folder: Path, max_positions: int) -> "SentenceConfig":
        """Read the folder's files; a plain encoder without them gets mean pooling.

        Raises ModelError on a module, pooling or option that is not implemented.
        """
        modules = _modules(folder)
        pooling: tuple[str, ...] = ("mean",)
        if "Pooling" in modules:
            pooling = _pooling(folder / modules["Pooling"] / "config.json")
        card = _optional(folder / "config_sentence_transformers.json")
        prompts: dict[str, str] = card.get("prompts") or {}
        encoder = _encoder_options(folder)
        return cls(
            max_length=_max_length(folder, encoder, max_positions),
            pooling=pooling,
            normalize="Normalize" in modules,
            lowercase=bool(encoder.get("do_lower_case")),
            prompts=prompts,
            default_prompt=_default(prompts, card.get("default_prompt_name")),
        )


def _modules(folder: Path) -> dict[str, str]:
    path = folder / "modules.json"
    if not path.exists():
        return {}
    modules = {entry["type"].rsplit(".", 1)[-1]: entry["path"] for entry in read_json(path)}
    unknown = modules.keys() - {"Transformer", "Pooling", "Normalize"}
    if unknown:
        raise ModelError(f"{path}: modules {sorted(unknown)} are not supported")
    return modules


def _pooling(path: Path) -> tuple[str, ...]:
    raw = read_json(path)
    if not raw.get("include_prompt", True):
        raise ModelError(f"{path}: include_prompt = false is not supported")
    modes = raw.get("pooling_mode") or [new for old, new in _BOOLEANS.items() if raw.get(old)]
    modes = (modes,) if isinstance(modes, str) else tuple(modes) or ("mean",)
    if not set(modes) <= set(_MODES):
        raise ModelError(f"{path}: pooling {modes} is not supported; supported: {_MODES}")
    return modes


def _encoder_options(folder: Path) -> dict[str, Any]:
    for name in ("sentence_bert_config.json", "sentence_roberta_config.json"):
        if (folder / name).exists():
            return _optional(folder / name)
    return {}


def _max_length(folder: Path, encoder: dict[str, Any], max_positions: int) -> int:
    tokenizer = _optional(folder / "tokenizer_config.json")
    asked = encoder.get("max_seq_length") or tokenizer.get("model_max_length") or max_positions
    return int(min(asked, max_positions))


def _default(prompts: dict[str, str], name: str | None) -> str:
    if name is None:
        return ""
    if name not in prompts:
        raise ModelError(f"default_prompt_name {name!r} is not one of {sorted(prompts)}")
    return prompts[name]


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}
