"""Folder of a model that PEFT has adapted: links to its files and the files of the base model."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from embedwell_models.checkpoint import adapters, safetensors_files
from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig, read_object
from embedwell_models.errors import ModelError
from embedwell_models.hub.linked_folders import linked_folder
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import has_modules, read_kind
from embedwell_models.tokenizer.loading import tokenizer_kind

_BASE = "base_model_name_or_path"
_CLASSIFIER = "ForSequenceClassification"
_CODES = {"BiQwen2_5_Processor": "BiQwen2_5"}  # class of a processor -> of its model
_LABELS = ("id2label", "label2id", "num_labels")

log = logging.getLogger(__name__)


def peft_folder(folder: Path, find: Callable[[str, Any], Path], cache: Path) -> Path:
    """Return a folder in the cache with an adapter and the model that it changes.

    A folder with a whole model is returned as it is.

    The modules after the encoder, the prompts, the tokenizer and the preprocessing of images are
    the adapter's if its folder has them, otherwise the base model's. Weights and options are the
    base model's. The adapter of a classifier makes one of a base model that has another task, and
    one whose processor is of its authors' code a model of that code.

    find: returns the folder of the base model from its name or path, and its revision.
    Raises ModelError for a base model that is missing, or that is adapted itself.
    """
    if not _has_adapter_alone(folder):
        return folder
    options = JsonConfig(folder / adapters.CONFIG)
    base = _find_base(options, find)
    classifies = _classifies(folder, options)
    links = _links(folder, base, whole=classifies)
    config = (_encoder(base) / "config.json").absolute()
    text = _classifier_config(config) if classifies else _config_of_code(folder, config)
    written = {name: text for name, source in links.items() if text and source == config}
    target = linked_folder(cache / "peft", folder.name, links, written)
    log.info("the adapter of %s is added to the weights of %s", folder, options[_BASE])
    return target


def _has_adapter_alone(folder: Path) -> bool:
    # Whether a folder has the adapter of a model whose weights are elsewhere.
    is_adapter = (folder / adapters.CONFIG).is_file()
    return is_adapter and not safetensors_files.weight_files(folder)


def _find_base(options: JsonConfig, find: Callable[[str, Any], Path]) -> Path:
    name = options.get(_BASE, "")
    if not name:
        raise ModelError(f"{options.path}: {_BASE} is missing: set it to the adapted model")
    try:
        base = find(name, options.get("revision"))
    except ModelError as error:
        raise ModelError(f"{options.path}: the base model {name!r}: {error}") from None
    if _has_adapter_alone(base):
        raise ModelError(f"{options.path}: the base model {name!r} is adapted itself: merge it")
    return base


def _classifies(adapter: Path, options: JsonConfig) -> bool:
    # Whether the adapter is one of a model with a classification head.
    if options.get("task_type", "") == "SEQ_CLS":
        return True
    kinds = [entry.kind for entry in modules.read_entries(adapter)]
    return read_kind(adapter) == "CrossEncoder" and modules.LOGIT_SCORE not in kinds


def _config_of_code(adapter: Path, config: Path) -> str:
    # The config.json of the base model with the class of its authors' code that the adapter is for;
    # "" for the file as it is. PEFT names no class, but the processor next to the adapter does.
    if has_modules(adapter):
        return ""
    files = (JsonConfig.optional(adapter / name) for name in IMAGE_FILES)
    processors = {file.get("processor_class", "") for file in files}
    name = next((name for each, name in _CODES.items() if each in processors), "")
    return json.dumps({**read_object(config), "architectures": [name]}) if name else ""


def _classifier_config(config_file: Path) -> str:
    # The config.json of the base model as transformers has it for a new head; "" for the file as it
    # is. The number of labels is then the head's.
    config = read_object(config_file)
    name = next(iter(config.get("architectures") or ()), "")
    if name.endswith(_CLASSIFIER):
        return ""
    stem = re.sub(r"(LMHeadModel|Model|For[A-Z]\w*)$", "", name)
    options = {key: value for key, value in config.items() if key not in _LABELS}
    return json.dumps({**options, "architectures": [stem + _CLASSIFIER]})


def _links(adapter: Path, base: Path, whole: bool) -> Mapping[str, Path]:
    # Path in the new folder -> the file it links to. whole: whether the modules after the encoder
    # are the adapter's, or none.
    layout = adapter if whole or (adapter / "modules.json").is_file() else base
    encoder = _encoder(layout)
    tokenizer = _encoder(adapter if tokenizer_kind.files(_encoder(adapter)) else base)
    replaced = {*tokenizer_kind.files(encoder), *(adapter / name for name in adapters.FILES)}
    others = (path for path in _files_of_modules(layout) if path not in replaced)
    files = {path.relative_to(layout): path for path in others}
    weights = _encoder(base)
    needed = [
        weights / "config.json",
        weights / safetensors_files.INDEX,
        *tokenizer_kind.files(tokenizer),
    ]
    needed += safetensors_files.all_weight_files(weights)
    needed += (_encoder(adapter) / name for name in IMAGE_FILES)
    part = encoder.relative_to(layout)
    files |= {part / path.name: path for path in needed if path.is_file()}
    for name in adapters.FILES:
        files[part / adapters.FOLDER / name] = adapter / name
    return {path.as_posix(): source.absolute() for path, source in files.items()}


def _files_of_modules(folder: Path) -> list[Path]:
    # The files of a model's own folder, and all files below the subfolders of its modules.
    subfolders = {folder / entry.path for entry in modules.read_entries(folder)} - {folder}
    below = (path for subfolder in subfolders for path in subfolder.rglob("*"))
    return [path for path in (*folder.iterdir(), *below) if path.is_file()]


def _encoder(folder: Path) -> Path:
    return folder / modules.read_entries(folder)[0].path
