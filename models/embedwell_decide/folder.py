"""Folders of Laya and GLiNER2 as the core reads models: one config.json, and links to the rest."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embedwell_decide import gliner_options
from embedwell_models.config.json_config import JsonConfig, read_object
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
_GLINER_ENCODER = "encoder_config/config.json"
_GLINER_ENCODERS = ("deberta-v2",)


def laya_folder(folder: Path, _find: object, cache: Path) -> Path:
    """Return a folder in the cache that stands for a Laya checkpoint.

    Raises ModelError for a checkpoint without an encoder's options, weights or tokenizer, and for
    an encoder or a layout of the options that is not supported.
    """
    options = read_object(folder / OPTIONS_FILE)
    encoder = _encoder(folder / _ENCODER_CONFIG, _ENCODERS)
    if options.get(_LAYOUT, "sequential") != "sequential":
        raise ModelError(
            f"{folder / OPTIONS_FILE}: {_LAYOUT} {options[_LAYOUT]!r} is not supported; supported: "
            "sequential"
        )
    config = {
        **encoder,
        "model_type": MODEL_TYPE,
        OPTIONS: {key: options[key] for key in _READ if key in options},
    }
    written = {"config.json": json.dumps(config, indent=2)}
    return _linked(folder, folder / "tokenizer", folder / OPTIONS_FILE, written, cache)


def gliner_folder(folder: Path, _find: object, cache: Path) -> Path:
    """Return a folder in the cache that stands for a GLiNER2 checkpoint.

    Raises ModelError for a checkpoint without weights or a tokenizer, and for an encoder or an
    architecture that is not supported.
    """
    options = JsonConfig(folder / "config.json")
    options.require("model_type", "extractor")
    gliner_options.GlinerOptions.of(options)
    architecture = gliner_options.architecture_of(options)
    head = {} if architecture == "span" else {"boundary_head": options.get("boundary_head", {})}
    config = {
        **_encoder(folder / _GLINER_ENCODER, _GLINER_ENCODERS),
        "model_type": gliner_options.MODEL_TYPE,
        gliner_options.OPTIONS: {"architecture": architecture, **head},
    }
    written = {"config.json": json.dumps(config, indent=2)}
    return _linked(folder, folder, folder / "config.json", written, cache)


def refuse_von(folder: Path, _find: object, _cache: Path) -> Path:
    """Raise ModelError for a checkpoint of Von."""
    raise ModelError(
        f"{folder} is not supported, because it is a Von, whose options attend to the text and not "
        "to each other; supported decision models: Laya, GLiNER2 and GLiClass"
    )


def _encoder(file: Path, supported: Sequence[str]) -> dict[str, Any]:
    """Return an encoder's options, but not the names of its classes; raises ModelError."""
    options = read_object(file)
    if options.get("model_type") not in supported:
        raise ModelError(
            f"{file}: model_type {options.get('model_type')!r} is not supported in a decision "
            f"model; supported: {', '.join(supported)}"
        )
    return {key: value for key, value in options.items() if key != "architectures"}


def _linked(
    folder: Path, tokenizer: Path, source: Path, written: Mapping[str, str], cache: Path
) -> Path:
    """Return a folder of links; raises ModelError for one without weights or a tokenizer.

    tokenizer: the folder of its files. written: texts of files that are made from a source.
    """
    links = {_WEIGHTS: folder / _WEIGHTS, **_tokenizer_files(tokenizer)}
    if not links[_WEIGHTS].is_file():
        raise ModelError(f"{folder} has no {_WEIGHTS}")
    links = {name: path.absolute() for name, path in links.items()}
    links |= dict.fromkeys(written, source)
    return linked_folder(cache / "decisions", folder.name, links, written)


def _tokenizer_files(folder: Path) -> dict[str, Path]:
    files = {path.name: path for path in sorted(folder.glob("*")) if path.is_file()}
    if "tokenizer.json" not in files:
        raise ModelError(f"{folder} has no tokenizer.json")
    return {name: path for name, path in files.items() if name != "config.json"}
