"""Folder of a GGUF file: the small files of its model, beside a link to it."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import cached_folder
from embedwell_models.errors import ModelError
from embedwell_models.gguf import architectures, tokenizer_files
from embedwell_models.gguf.architectures import DENSE
from embedwell_models.gguf.file import GgufFile, Metadata
from embedwell_models.tables.table import decoded

_LAYOUT = 1  # raised when the small files change
_POOLING = {1: "mean", 2: "cls", 3: "lasttoken"}
_NO_POOLING, _RANK = 0, 4
_PACKAGE = "sentence_transformers.models."

log = logging.getLogger(__name__)


def gguf_folder(file: Path, cache: Path) -> Path:
    """Return the folder of a GGUF file; the first use of the file writes it into the cache.

    The weights stay in the file. Raises ModelError for a file that cannot be read, or whose
    architecture or tokenizer is not supported.
    """
    file = file.resolve()
    state = file.stat()
    parts = (_LAYOUT, file, state.st_size, state.st_mtime_ns)
    key = hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]
    folder = cache / "gguf" / f"{file.stem}-{key}"
    return cached_folder(folder, lambda scratch: _write(file, scratch))


def _write(file: Path, folder: Path) -> None:
    header = GgufFile.read(file)
    metadata = Metadata(header)
    config = architectures.find(metadata).config(metadata)
    for name, content in tokenizer_files.files(metadata).items():
        _write_json(folder / name, content)
    modules = _modules(metadata)
    _write_json(folder / "config.json", config)
    if modules:
        _write_json(folder / "modules.json", _module_list(modules))
        for path, _, options in modules:
            (folder / path).mkdir(exist_ok=True)
            if options:
                _write_json(folder / path / "config.json", options)
        _write_dense_layers(header, folder)
    (folder / safetensors_files.GGUF).symlink_to(file)


def _modules(metadata: Metadata) -> list[tuple[str, str, dict[str, Any]]]:
    # Path, kind and options of each module after the encoder; none if the file has no pooling.
    pooling = metadata.optional("pooling_type", _NO_POOLING)
    if pooling == _RANK:
        if not architectures.has_classifier(metadata):
            raise ModelError(
                f"{metadata.file.path}: rerankers of the architecture {metadata.architecture!r} "
                "are not read from GGUF: give the folder of the original model"
            )
        return []
    if pooling == _NO_POOLING:
        return []
    if pooling not in _POOLING:
        raise metadata.unsupported("pooling_type", pooling, {**_POOLING, _RANK: "rank"})
    width = metadata.size("embedding_length")
    modules = [("1_Pooling", "Pooling", _pooling(width, _POOLING[pooling]))]
    for name in DENSE:
        if name in metadata.tensors:
            modules.append((_dense_path(name), "Dense", _dense(*metadata.tensors[name].shape)))
    if metadata.architecture == "gemma-embedding" and len(modules) == 1:
        log.warning(
            "%s has no layers after the pooling (dense_2, dense_3): its vectors differ from those "
            "of the original EmbeddingGemma",
            metadata.file.path,
        )
    return [*modules, ("4_Normalize", "Normalize", {})]  # as llama.cpp's programs do


def _pooling(width: int, mode: str) -> dict[str, Any]:
    return {"word_embedding_dimension": width, "pooling_mode": mode, "include_prompt": True}


def _dense(outputs: int, inputs: int) -> dict[str, Any]:
    return {
        "in_features": inputs,
        "out_features": outputs,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }


def _dense_path(name: str) -> str:
    return f"{name.removeprefix('dense_').removesuffix('.weight')}_Dense"


def _module_list(modules: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    kinds = [("", "Transformer"), *((path, kind) for path, kind, _ in modules)]
    return [
        {"idx": index, "name": str(index), "path": path, "type": _PACKAGE + kind}
        for index, (path, kind) in enumerate(kinds)
    ]


def _write_dense_layers(header: GgufFile, folder: Path) -> None:
    for name, numbers in header.arrays():
        if name in DENSE:
            path = folder / _dense_path(name) / "model.safetensors"
            safetensors_files.write_arrays(path, {"linear.weight": decoded(numbers)})


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
