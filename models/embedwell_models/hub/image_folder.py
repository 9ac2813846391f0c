"""Folder of a model of texts with the image encoder of another model, in the same space."""

import logging
from pathlib import Path

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.hub.linked_folder import linked_folder
from embedwell_models.images import preprocessing
from embedwell_models.model_files import modules
from embedwell_models.model_files.modules import IMAGE_ENCODER

log = logging.getLogger(__name__)


def with_image_encoder(texts: Path, images: Path, cache: Path) -> Path:
    """Return a folder in the cache with links to a model of texts and to another's image encoder.

    texts, images: folders of the two models. Raises ModelError for an image model without weights.
    """
    encoder = images / modules.read_entries(images)[0].path
    files = [encoder / name for name in ("config.json", *preprocessing.FILES)]
    files += safetensors_files.all_weight_files(encoder)
    files.append(encoder / safetensors_files.INDEX)
    links = {path.relative_to(texts).as_posix(): path for path in texts.rglob("*")}
    links |= {f"{IMAGE_ENCODER}/{path.name}": path for path in files}
    absolute = {name: path.absolute() for name, path in links.items() if path.is_file()}
    log.info("images of %s are embedded by the image encoder of %s", texts, images)
    return linked_folder(cache / "images", texts.name, absolute)
