"""Folders in the cache that join a model with another's image encoder, or another's config.json."""

import logging
from pathlib import Path

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.hub.huggingface import fetch_config
from embedwell_models.hub.linked_folders import linked_folder
from embedwell_models.model_files import modules
from embedwell_models.model_files.modules import IMAGE_ENCODER
from embedwell_vision.families.jina_clip import TEXT_CONFIG

log = logging.getLogger(__name__)


def with_image_encoder(texts: Path, images: Path, cache: Path) -> Path:
    """Return a folder in the cache with links to a model of texts and to another's image encoder.

    texts, images: folders of the two models. Raises ModelError for an image model without weights.
    """
    encoder = images / modules.read_entries(images)[0].path
    files = [encoder / name for name in ("config.json", *IMAGE_FILES)]
    files += safetensors_files.all_weight_files(encoder)
    files.append(encoder / safetensors_files.INDEX)
    links = _links_to_all(texts)
    links |= {f"{IMAGE_ENCODER}/{file.name}": file.absolute() for file in files if file.is_file()}
    log.info("images of %s are embedded by the image encoder of %s", texts, images)
    return linked_folder(cache / "images", texts.name, links)


def with_text_config(folder: Path, cache: Path) -> Path:
    """Return a folder in the cache with links to a model and to the config.json that it names.

    A folder that has this file, or that names none, is returned itself. Raises ModelError for a
    config.json that cannot be found.
    """
    options = JsonConfig(folder / "config.json").nested("text_config")
    name = options.get("hf_model_name_or_path", "")
    if not name or (folder / TEXT_CONFIG).is_file():
        return folder
    try:
        config = Path(name) / "config.json"
        config = config if config.is_file() else fetch_config(name, cache / "configs")
    except ModelError as error:
        raise ModelError(
            f"{options.path} names {name!r} for the sizes of its text encoder: {error}; put a copy "
            f"of its config.json there as {TEXT_CONFIG}"
        ) from None
    links = {**_links_to_all(folder), TEXT_CONFIG: config.absolute()}
    return linked_folder(cache / "text_configs", folder.name, links)


def _links_to_all(folder: Path) -> dict[str, Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {file.relative_to(folder).as_posix(): file.absolute() for file in files}
