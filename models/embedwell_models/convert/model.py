"""Conversion of a model folder; after an error, no new folder is left."""

import logging
import shutil
from pathlib import Path

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.convert import tokenizer, weights
from embedwell_models.errors import ModelError
from embedwell_models.hub import conversion
from embedwell_models.loading.footprint import Footprint
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_files import modules
from embedwell_models.model_files.bge_m3 import PICKLED_HEADS

_COPIED_SUFFIXES = (
    *(".codes", ".jinja", ".json", ".md", ".metadata", ".model", ".safetensors", ".txt"),
)

log = logging.getLogger(__name__)


def convert_folder(source: Path, target: Path) -> None:
    """Convert a model to a new folder that the server and sentence-transformers can read.

    Raises ModelError for an unreadable or unsupported folder, and if `target` exists.
    """
    conversion.refuse_unsupported(source)
    try:
        with new_folder(target) as scratch:
            _write(source, scratch)
            _check(source, scratch)
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}") from None


def _write(source: Path, scratch: Path) -> None:
    entries = modules.read_entries(source)
    for part in dict.fromkeys(["", *(entry.path for entry in entries)]):
        _copy(source / part, scratch / part)
        if safetensors_files.format_name(source / part) == "ONNX":
            log.info("%s: writing the weights of its ONNX file as safetensors", source / part)
            weights.convert_export(source / part, scratch / part)
    encoder = entries[0].path
    if "tokenizer.json" in conversion.missing_files(source):
        _convert_tokenizer(source / encoder, scratch / encoder)
    for part in conversion.parts_without_safetensors(source):
        log.info("%s: converting its pickle to safetensors", source / part)
        weights.convert(source / part, scratch / part)
    for name in PICKLED_HEADS:
        if (source / name).is_file():
            weights.convert_file(source / name, (scratch / name).with_suffix(".safetensors"))


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if path.is_file() and path.suffix in _COPIED_SUFFIXES and "pytorch_model" not in path.name:
            shutil.copyfile(path, target / path.name)


def _convert_tokenizer(source: Path, target: Path) -> None:
    if not conversion.extra_installed():
        raise ModelError(f"{source} has no tokenizer.json; to make one, {conversion.INSTALL}")
    log.info("%s: converting its vocabulary to tokenizer.json", source)
    for name in tokenizer.REPLACED:
        (target / name).unlink(missing_ok=True)
    tokenizer.convert(source, target)


def _check(source: Path, scratch: Path) -> None:
    try:
        folder = ModelDescription.read(scratch)
        folder.tokenizer()
        Footprint.of(folder)  # raises ModelError for a tensor that the family does not have
        for path in folder.checkpoints():
            safetensors_files.headers(path)
    except ModelError as error:
        raise ModelError(str(error).replace(str(scratch), str(source))) from None
