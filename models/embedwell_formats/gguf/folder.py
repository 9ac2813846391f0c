"""Folder of a GGUF file: the small files of its model, with a link to it."""

import hashlib
import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedwell_formats.gguf import architectures, tokenizer_files
from embedwell_formats.gguf.architectures import DENSE
from embedwell_formats.gguf.file import LAST_TOKEN, GgufFile, Metadata, first_part, further_parts
from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files
from embedwell_models.checkpoint.new_folder import cached_folder
from embedwell_models.checkpoint.tables import decoded
from embedwell_models.config.json_config import read_json
from embedwell_models.config.other_files import GGUF_WARNINGS
from embedwell_models.errors import ModelError
from embedwell_models.model_files import chat_template
from embedwell_prompts.rerank_formats import FORMATS

_LAYOUT = 2  # raised when the small files change
_POOLING = {1: "mean", 2: "cls", LAST_TOKEN: "lasttoken"}
_NO_POOLING, _RANK = 0, 4
_ROLES = {"{instruction}": "system", "{query}": "query", "{document}": "document"}
_PACKAGE = "sentence_transformers.models."
_MESSAGES_MODEL = "Qwen3-VL-Embedding"
_OUTPUT = {"module_output_name": "token_embeddings"}
_MESSAGES_TEMPLATE = (  # without the parts of the published one that no text reaches
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)

log = logging.getLogger(__name__)


def gguf_folder(files: Sequence[Path], cache: Path) -> Path:
    """Return the folder of a GGUF file; the first use of the file writes it into the cache.

    The weights stay in the file. Logs a warning for each difference between the file and the
    original model. files: the file, or all of a model in several.

    Raises ModelError for files of several models, for one that cannot be read, and for an
    architecture or a tokenizer that is not supported.
    """
    file = _first(files).resolve()
    states = [part.stat() for part in (file, *further_parts(file))]
    times = [(state.st_size, state.st_mtime_ns) for state in states]
    parts = (_LAYOUT, file, *(times[0] if len(times) == 1 else times))
    key = hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:16]
    target = cache / "gguf" / f"{file.stem}-{key}"
    folder = cached_folder(target, lambda scratch: _write(file, scratch))
    for warning in read_json(folder / GGUF_WARNINGS):
        log.warning("%s", warning)
    return folder


def _first(files: Sequence[Path]) -> Path:
    first = first_part(files) if len(files) > 1 else files[0]
    if first is None:
        folder = files[0].parent
        raise ModelError(f"{folder} has {len(files)} GGUF files: give one, such as {files[0]}")
    return first


def _write(file: Path, folder: Path) -> None:
    header = GgufFile.read(file)
    metadata = Metadata(header)
    config = architectures.find(metadata).config(metadata)
    for name, content in tokenizer_files.files(metadata).items():
        _write_json(folder / name, content)
    if architectures.has_answers(metadata):
        (folder / chat_template.FILE).write_text(_rerank_template(), encoding="utf-8")
    elif metadata.architecture == "qwen3vl" and metadata.is_named(_MESSAGES_MODEL):
        _write_message_format(folder)
        metadata.warn(
            f"each text is the message of a user to the model, as in {_MESSAGES_MODEL}: send texts "
            "as they are, without its chat template"
        )
    modules = _modules(metadata)
    _write_json(folder / "config.json", config)
    if modules:
        _write_json(folder / "modules.json", _module_list(modules))
        for path, _, options in modules:
            (folder / path).mkdir(exist_ok=True)
            if options:
                _write_json(folder / path / "config.json", options)
        _write_dense_layers(header, folder)
    _write_json(folder / GGUF_WARNINGS, metadata.warnings)
    (folder / safetensors_files.GGUF).symlink_to(file)
    for part in header.further_parts:
        (folder / part.name).symlink_to(part)


def _modules(metadata: Metadata) -> list[tuple[str, str, dict[str, Any]]]:
    # Path, kind and options of each module after the encoder; none for a reranker.
    pooling = metadata.optional("pooling_type", _NO_POOLING)
    reranks = architectures.has_classifier(metadata) or architectures.has_answers(metadata)
    if pooling == _RANK:
        if not reranks:
            raise ModelError(
                f"{metadata.file.path}: rerankers of the architecture {metadata.architecture!r} "
                "are not read from GGUF: give the folder of the original model"
            )
        return []
    if pooling == _NO_POOLING and reranks:
        return []
    if pooling not in (_NO_POOLING, *_POOLING):
        raise metadata.unsupported("pooling_type", pooling, {**_POOLING, _RANK: "rank"})
    modules = [("1_Pooling", "Pooling", _pooling(metadata, _POOLING.get(pooling)))]
    for name in DENSE:
        if name in metadata.tensors:
            modules.append((_dense_path(name), "Dense", _dense(*metadata.tensors[name].shape)))
    if metadata.architecture == "gemma-embedding" and len(modules) == 1:
        metadata.warn(
            "the file has no layers after the pooling (dense_2, dense_3): its vectors differ "
            "from the vectors of the original EmbeddingGemma"
        )
    return [*modules, ("4_Normalize", "Normalize", {})]  # as llama.cpp's programs do


def _write_message_format(folder: Path) -> None:
    (folder / chat_template.FILE).write_text(_MESSAGES_TEMPLATE, encoding="utf-8")
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    message = {**method, "format": "flat"}
    options = {"modality_config": {"text": method, "message": message}}
    _write_json(folder / "sentence_bert_config.json", {**options, **_OUTPUT})
    prompts = {"default": families.named("qwen3_vl").instruction}
    card = {"prompts": prompts, "default_prompt_name": "default"}
    _write_json(folder / "config_sentence_transformers.json", card)


def _rerank_template() -> str:
    # The file has llama.cpp's template, without an instruction.
    published = FORMATS["qwen3-reranker"]
    assert isinstance(published.text, str)
    parts = []
    for part in re.split(r"({\w+})", published.text):
        value = json.dumps(part)
        if role := _ROLES.get(part):
            messages = f'messages | selectattr("role", "eq", "{role}") | map(attribute="content")'
            value = f"{messages} | first | default({json.dumps(published.instruction)})"
        parts.append(f"{{{{ {value} }}}}")
    return "".join(parts)


def _pooling(metadata: Metadata, stated: str | None) -> dict[str, Any]:
    # A causal decoder knows a whole text at its last token alone.
    is_causal = architectures.find(metadata).decoder and metadata.optional("attention.causal", True)
    return {
        "word_embedding_dimension": metadata.size("embedding_length"),
        "pooling_mode": stated or ("lasttoken" if is_causal else "mean"),
        "include_prompt": True,
        "assumed": stated is None,
    }


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
