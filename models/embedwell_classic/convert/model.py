"""Conversion of a model folder, or of a file of word vectors or of an older encoder's weights.

After an error, no new folder is left.
"""

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from embedwell_classic.convert import elmo, gensim_models, laser, tokenizer, weights
from embedwell_classic.convert.word_embeddings import Choices, convert_words
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.config import other_files
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from embedwell_models.hub import conversion
from embedwell_models.hub.huggingface import PICKLED_HEADS
from embedwell_models.model_files import modules

_ENCODERS: Mapping[str, Callable[[Path, Path], None]] = {
    **dict.fromkeys(gensim_models.SUFFIXES, gensim_models.convert_doc2vec),
    elmo.SUFFIX: elmo.convert_elmo,
    laser.SUFFIX: laser.convert_laser,
}
"""Converters of older encoders' files, by suffix; all other files are word vectors."""
_COPIED_SUFFIXES = (
    *(".codes", ".jinja", ".json", ".md", ".metadata", ".model", ".safetensors", ".txt"),
)

log = logging.getLogger(__name__)


def convert_file(source: Path, target: Path, choices: Choices) -> None:
    """Convert a file of word vectors, or of an older encoder's weights, to a folder.

    choices: the options for word vectors. Raises ModelError for a file that cannot be read, and if
    `target` exists.
    """
    other_files.refuse_pointer(source)
    if other_files.format_name(source):
        raise ModelError(f"{source} {other_files.other_format(source)}")
    gensim_models.refuse_word_vectors(source)
    convert = _ENCODERS.get(source.suffix)
    if convert is None:
        convert_words(source, target, choices)
    elif choices != Choices():
        raise ModelError("--limit, --exact, --weights and --corpus are for files of word vectors")
    else:
        convert(source, target)


def convert_folder(source: Path, target: Path) -> None:
    """Convert a model to a new folder that the server and sentence-transformers can read.

    Raises ModelError for an unreadable or unsupported folder, and if `target` exists.
    """
    conversion.refuse_unsupported(source)
    try:
        with new_folder(target) as scratch:
            _write_folder(source, scratch)
            _check_folder(source, scratch)
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}") from None


def _write_folder(source: Path, scratch: Path) -> None:
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


def _check_folder(source: Path, scratch: Path) -> None:
    try:
        folder = ModelDescription.read(scratch)
        folder.tokenizer()
        Footprint.of(folder)  # raises ModelError for a tensor that the family does not have
        for path in folder.checkpoints():
            safetensors_files.headers(path)
    except ModelError as error:
        raise ModelError(str(error).replace(str(scratch), str(source))) from None
