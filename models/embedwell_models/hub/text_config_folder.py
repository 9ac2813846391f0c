"""Folder of a model whose config.json leaves the sizes of its text encoder to another model's."""

from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.jina_clip import TEXT_CONFIG
from embedwell_models.hub.huggingface import fetch_config
from embedwell_models.hub.linked_folder import linked_folder


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
    files = (path for path in folder.rglob("*") if path.is_file())
    links = {path.relative_to(folder).as_posix(): path.absolute() for path in files}
    return linked_folder(
        cache / "text_configs", folder.name, {**links, TEXT_CONFIG: config.absolute()}
    )
