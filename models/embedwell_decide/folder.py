"""Folder of a Laya checkpoint as the core reads models: one config.json, and links to the rest."""

import json
from pathlib import Path

from embedwell_models.config.json_config import read_object
from embedwell_models.errors import ModelError
from embedwell_models.hub.linked_folders import linked_folder

OPTIONS_FILE = "rl_agent_config.json"
OPTIONS = "decisions"
"""Key of the options in config.json."""
MODEL_TYPE = "laya"
_ENCODER_CONFIG = "encoder/config.json"
_WEIGHTS = "model.safetensors"
_ENCODERS = ("modernbert",)
_READ = ("head_layers", "max_len", "head_max_len", "temperature", "temperature_by_options")
_LAYOUT = "option_layout"

_REFUSED = {
    "marker_calibration.json": "Von: its options attend to the text and not to each other",
    "encoder_config/config.json": "GLiNER2: its rows are not those of Laya or GLiClass",
}


def decision_folder(folder: Path, _find: object, cache: Path) -> Path:
    """Return a folder in the cache that stands for a Laya checkpoint.

    Raises ModelError for a checkpoint without an encoder's options, weights or tokenizer, and for
    an encoder or a layout of the options that is not supported.
    """
    options = read_object(folder / OPTIONS_FILE)
    encoder = read_object(folder / _ENCODER_CONFIG)
    if encoder.get("model_type") not in _ENCODERS:
        raise ModelError(
            f"{folder / _ENCODER_CONFIG}: model_type {encoder.get('model_type')!r} is not "
            f"supported in a decision model; supported: {', '.join(_ENCODERS)}"
        )
    if options.get(_LAYOUT, "sequential") != "sequential":
        raise ModelError(
            f"{folder / OPTIONS_FILE}: {_LAYOUT} {options[_LAYOUT]!r} is not supported; supported: "
            "sequential"
        )
    config = {
        **{key: value for key, value in encoder.items() if key != "architectures"},
        "model_type": MODEL_TYPE,
        OPTIONS: {key: options[key] for key in _READ if key in options},
    }
    written = {
        "config.json": json.dumps(config, indent=2),
        "sentence_bert_config.json": json.dumps({"max_seq_length": options.get("max_len", 512)}),
    }
    links = {_WEIGHTS: folder / _WEIGHTS, **_tokenizer_files(folder / "tokenizer")}
    if not links[_WEIGHTS].is_file():
        raise ModelError(f"{folder} has no {_WEIGHTS}")
    links = {name: path.absolute() for name, path in links.items()}
    links |= dict.fromkeys(written, folder / OPTIONS_FILE)
    return linked_folder(cache / "decisions", folder.name, links, written)


def refuse_folder(folder: Path, _find: object, _cache: Path) -> Path:
    """Raise ModelError for a checkpoint of a decision model that is known and not supported."""
    reason = next(reason for name, reason in _REFUSED.items() if (folder / name).is_file())
    raise ModelError(
        f"{folder} is not supported, because it is a {reason}; supported decision models: Laya and "
        "GLiClass"
    )


def _tokenizer_files(folder: Path) -> dict[str, Path]:
    files = {path.name: path for path in sorted(folder.glob("*")) if path.is_file()}
    if "tokenizer.json" not in files:
        raise ModelError(f"{folder} has no tokenizer.json")
    return {name: path for name, path in files.items() if name != "config.json"}
