"""The files of a model that decide its vectors, and their fingerprint."""

import hashlib
import pkgutil
from pathlib import Path

from embedwell_models import vision
from embedwell_models.checkpoint import adapters, safetensors_files
from embedwell_models.config.json_config import KALM_RERANKER, WORD_VECTORS
from embedwell_models.config.model_options import AUTO
from embedwell_models.config.other_files import sha256
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.model_files import modules
from embedwell_models.model_files.card import CARD, STANFORD_METADATA
from embedwell_models.model_files.sparse import sparse_files
from embedwell_models.model_files.transformer import options_file
from embedwell_models.tokenizer.loading import tokenizer_kind


def fingerprint(model: ModelDescription) -> str:
    """Hash everything that decides the vectors except the precision: files and settings."""
    parts = [f"{file.relative_to(model.path)} {sha256(file)}" for file in files(model)]
    parts.append(repr(model.recipe.pooling))  # a setting may override the pooling of the files
    if model.pair_format:
        parts.append(repr(model.pair_format))
    if model.spec.adapters:
        parts.append(repr(model.spec.adapters))
    if model.unicode_normalization != "none":
        parts.append(model.unicode_normalization)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def files(model: ModelDescription) -> list[Path]:
    """List all files that are read: weights, tokenizer, options and prompts."""
    options = _module_options(model)
    if model.reads_images:
        options += pkgutil.resolve_name(vision.FILES)(model)
    options += [model.path / name for name in ("modules.json", CARD, STANFORD_METADATA)]
    options += [model.encoder / name for name in (WORD_VECTORS, KALM_RERANKER)]
    if model.pair_format or model.recipe.text_format:
        from embedwell_models.model_files import chat_template

        options += chat_template.template_files(model.encoder)
        options.append(model.encoder / chat_template.PROCESSOR_FILE)
    present = filter(Path.is_file, options)
    return sorted({*_weights(model), *tokenizer_kind.files(model.encoder), *present})


def _weights(model: ModelDescription) -> list[Path]:
    checkpoints = map(safetensors_files.all_weight_files, model.checkpoints())
    weights = [file for files in checkpoints for file in files]
    chosen = model.spec.adapters.chosen_folder if model.spec.adapters else None
    for adapter in adapters.folders(model.encoder, chosen):
        weights += [adapter / name for name in adapters.FILES]
    return weights


def _module_options(model: ModelDescription) -> list[Path]:
    tasks = modules.read_tasks(model.path)
    route = modules.task_route(tasks, model.spec.adapter or AUTO)
    entries = modules.read_entries(model.path, route)
    options = [model.path / entry.path / "config.json" for entry in entries]
    options += {model.path / Path(entry.path).parent / modules.ROUTER_FILE for entry in entries}
    if stated := options_file(model.path, entries[0].path):
        options.append(stated)
    return [*options, *sparse_files(model.path, entries, model.recipe.sparse)]
