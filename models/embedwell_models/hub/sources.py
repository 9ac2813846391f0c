"""Sources of models: a local folder, a bundled wheel, or the Hugging Face Hub."""

import logging
import os
import pkgutil
import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from embedwell_models.config import other_files
from embedwell_models.config.model_options import DEFAULT_OPTIONS, ModelOptions
from embedwell_models.errors import ModelError
from embedwell_models.hub.bundles import BUNDLES, fetch_bundle, verify_changed

DEFAULT = "all-MiniLM-L6-v2"
_OTHER_LAYOUTS = {
    "adapter_config.json": "embedwell_formats.peft.folder:peft_folder",  # saved by PEFT
    "rl_agent_config.json": "embedwell_decide.folder:laya_folder",
    "marker_calibration.json": "embedwell_decide.folder:refuse_von",
    "encoder_config/config.json": "embedwell_decide.folder:gliner_folder",
}
"""Files of models in other folders than usual -> what links them to a folder in the cache.

Arguments: the folder, what returns the folder of another model by its name and revision, and the
cache. The folder itself is returned where it is whole. Raises ModelError for a layout that is not
supported.
"""
_GGUF_FOLDER = "embedwell_formats.gguf.folder:gguf_folder"
"""Function that links the files of a model in GGUF to a folder in the cache."""
_IMAGE_FOLDERS = "embedwell_vision.linked_folders"
"""Functions that link another model's image encoder, or config.json, to a folder in the cache."""
_SIMILAR = 0.9  # ratio of difflib
_HUB_PAGE = re.compile(r"(https?://)?(huggingface|hf)\.co/(?P<name>[\w.-]+/[\w.-]+)")

_NO_WEIGHTS = "neither safetensors nor pytorch_model.bin"
_OTHER_FORMATS = (
    "if it has only files of another format, or of ONNX without model.onnx or model_fp16.onnx, "
    "which embedwell does not read, give the name of the original model; if it has GGUF files, "
    "fetch one and give its path"
)

log = logging.getLogger(__name__)


def default_cache() -> Path:
    """Return the default folder for fetched models."""
    base = os.environ.get("XDG_CACHE_HOME") or _home() / ".cache"
    return Path(base) / "embedwell"


def _home() -> Path:
    """Return the user's home; `/`, as in containers, for a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def resolve(model: str, options: ModelOptions = DEFAULT_OPTIONS, cache: Path | None = None) -> Path:
    """Return the folder of a model; the first use fetches it.

    model: a folder, a GGUF file, a name in BUNDLES, or `organisation/name` on the Hugging Face hub.
    The folder of an adapter alone, as PEFT saves it, is joined with its base model, and one whose
    text encoder is described by another model with the config.json of that. The image
    encoder of options.image_model is joined with it.
    Raises ModelError if the model does not exist, has no revisions, or cannot be fetched or
    verified.
    """
    cache = cache or default_cache()
    if options.revision and (model in BUNDLES or Path(model).exists()):
        raise ModelError(
            f"revision {options.revision!r}: only models on a hub have revisions, and {model} is "
            "not one; leave it out, or give organisation/name"
        )
    with other_files.permission_errors():
        folder = _resolve_alone(model, options.revision, cache)
        if options.image_model is None:
            return folder
        images = _find_images(options.image_model, cache)
        return _linked(f"{_IMAGE_FOLDERS}:with_image_encoder", folder, images, cache)


def _resolve_alone(model: str, revision: str | None, cache: Path) -> Path:
    folder = _find(model, revision, cache)
    for name, read in _OTHER_LAYOUTS.items():
        if (folder / name).is_file():
            linked = _linked(read, folder, partial(_find, cache=cache), cache)
            if linked != folder:
                return linked
    if _names_other_config(folder):
        return _linked(f"{_IMAGE_FOLDERS}:with_text_config", folder, cache)
    return folder


def _linked(function: str, *arguments: Any) -> Path:
    linked: Path = pkgutil.resolve_name(function)(*arguments)  # imported for such a model alone
    return linked


def _names_other_config(folder: Path) -> bool:
    try:
        return b'"hf_model_name_or_path"' in other_files.read(folder / "config.json")
    except (OSError, ModelError):  # named when the file is parsed
        return False


def _find_images(model: str, cache: Path) -> Path:
    # An image encoder needs no tokenizer.
    from embedwell_models.hub import conversion

    if is_hub_name(model) and not Path(model).exists():
        folder = _fetch(model, None, cache)
        if not conversion.parts_without_safetensors(folder):
            return folder
    return _find(model, None, cache)


def _find(model: str, revision: str | None, cache: Path) -> Path:
    if files := _gguf_files(Path(model)):
        return _linked(_GGUF_FOLDER, files, cache)
    if Path(model).is_dir():
        return Path(model).resolve()
    if Path(model).is_file():
        raise ModelError(_as_file(Path(model)))
    if model in BUNDLES:
        folder = cache / model
        if not folder.is_dir():
            from embedwell_models.hub.huggingface import log_fetch

            return log_fetch(model, lambda: fetch_bundle(BUNDLES[model], folder))
        try:
            verify_changed(BUNDLES[model], folder)
        except ModelError as error:
            raise ModelError(f"{error}; delete {folder} to fetch it again") from None
        return folder
    if is_hub_name(model):
        return _resolve_hub_model(model, revision, cache)
    raise ModelError(
        f"no model {model!r}: {_question(model)}give a folder, organisation/name (`embedwell "
        f"models` lists some), or {DEFAULT}; {missing_folder(model)}"
    )


def _question(model: str) -> str:
    """Ask whether the model of a hub's page, or a known one of a similar name, was meant."""
    if page := _HUB_PAGE.match(model):
        return f"did you mean {page['name']}? Otherwise "
    if "://" in model:
        return "addresses are not read; download the model's files, and "
    from embedwell_models.hub.known_models import known_models  # for this message alone

    names = (*BUNDLES, *known_models())
    parts = [name for name in names if model and model.lower() in name.lower()]
    lower = {name.lower(): name for name in names}
    close = get_close_matches(model.lower(), lower, n=3, cutoff=_SIMILAR)
    similar = parts[:3] or [lower[name] for name in close]
    return f"did you mean {' or '.join(similar)}? Otherwise " if similar else ""


def missing_folder(model: str) -> str:
    """Say which folder a name would be, and that there is none."""
    path = os.path.abspath(model)
    if problem := other_files.dangling_link(Path(path)):
        return f"{path} {problem}"
    return f"there is no folder {path}"


def _gguf_files(path: Path) -> list[Path]:
    """Return the GGUF file that a path names, or those of a folder without other weights."""
    if path.is_file():
        is_gguf = path.suffix.lower() == other_files.GGUF or other_files.start(path, 4) == b"GGUF"
        return [path] * is_gguf  # blobs of Ollama have no suffix
    if (path / other_files.GGUF_WARNINGS).is_file():
        return []
    listed = sorted(path.glob(f"*{other_files.GGUF}")) if path.is_dir() else []
    files = [file for file in listed if file.is_file()]
    has_others = files and any(any(path.glob(name)) for name in ("*.safetensors", "*.bin"))
    return [] if has_others else files


def _as_file(path: Path) -> str:
    if other_files.format_name(path):
        return f"{path} {other_files.other_format(path)}"
    if path.suffix in (".safetensors", ".json"):
        return f"{path} is a file: give the folder that has it"
    return (
        f"{path} is a file: `embedwell convert {path} -o FOLDER` makes a folder of word vectors; "
        "of any other model, give the folder that has the file"
    )


def is_hub_name(model: str) -> bool:
    """Whether a name has the form organisation/name of a model on a hub."""
    return model.count("/") == 1 and not model.startswith((".", "/"))


def _resolve_hub_model(model: str, revision: str | None, cache: Path) -> Path:
    # With numpy, which the other sources do not need.
    from embedwell_models.hub import conversion, huggingface

    folder = _fetch(model, revision, cache)
    if any((folder / name).is_file() for name in _OTHER_LAYOUTS):
        return folder
    target = converted_folder(model, folder, cache)
    parts = conversion.parts_without_safetensors(folder)
    if parts and not target.is_dir():
        names = huggingface.file_names(model, commit=folder.name)
        if exported := _exports(model, names, parts):
            folder = huggingface.fetch(model, revision, cache / "hub", exported=exported)
    missing = " and no ".join(conversion.missing_files(folder))
    if not missing:
        return folder
    if not target.is_dir():
        if not conversion.extra_installed():
            raise ModelError(
                f"{model} has no {missing}: run `embedwell convert {model}` once. It is done as "
                f"the model is fetched where its packages are installed: {conversion.INSTALL}"
            )
        original = fetch_with_pickles(model, revision, cache)
        log.warning("%s has no %s: converting it once, to %s", model, missing, target)
        conversion.convert_in_subprocess(original, target)
    return target


def _exports(model: str, names: Sequence[str], parts: Sequence[str]) -> list[str]:
    """Return the file in ONNX of each part of a model that has no pickle.

    Raises ModelError for a part without either.
    """
    from embedwell_models.checkpoint.safetensors_files import EXPORTS

    pickled = {
        path.parent for path in map(PurePosixPath, names) if path.match("pytorch_model*.bin")
    }
    exports = []
    for part in map(PurePosixPath, parts):
        if part in pickled:
            continue
        paths = [(part / place / name).as_posix() for name in EXPORTS for place in ("", "onnx")]
        if not (known := [path for path in paths if path in names]):
            others = [name for name in names if PurePosixPath(name).suffix == other_files.ONNX]
            listed = f" (it has {', '.join(sorted(others)[:3])})" if others else ""
            raise ModelError(f"{model} has {_NO_WEIGHTS}{listed}; {_OTHER_FORMATS}")
        exports += known[:1]
    return exports


def fetch_with_pickles(model: str, revision: str | None, cache: Path) -> Path:
    """Fetch a model of a hub, with torch.save weights for parts without safetensors.

    Raises ModelError for an unsupported family before large files are fetched.
    """
    from embedwell_models.checkpoint import safetensors_files
    from embedwell_models.hub import conversion, huggingface

    folder = _fetch(model, revision, cache)
    conversion.refuse_unsupported(folder)
    parts = conversion.parts_without_safetensors(folder)
    folder = huggingface.fetch(model, revision, cache / "hub", parts)
    if not all(safetensors_files.pickles(folder / part) for part in parts):
        raise ModelError(f"{model} has {_NO_WEIGHTS}; {_OTHER_FORMATS}")
    return folder


def _fetch(model: str, revision: str | None, cache: Path) -> Path:
    from embedwell_models.hub import huggingface

    try:
        folder = huggingface.fetch(model, revision, cache / "hub")
    except ModelError as error:
        raise ModelError(f"{str(error).rstrip('.')}; and {missing_folder(model)}") from None
    if not any(
        (folder / name).exists() for name in ("config.json", "modules.json", *_OTHER_LAYOUTS)
    ):
        raise ModelError(f"{model} has no config.json; {_OTHER_FORMATS}")
    return folder


def converted_folder(model: str, folder: Path, cache: Path) -> Path:
    """Return the folder of a hub's converted model. folder: the original's, of one commit."""
    return cache / "converted" / model.replace("/", "--") / folder.name
