"""Preprocessing of a model's images, as its files state it."""

import logging
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import TORCH_MISSING
from embedwell_models.images.pages import PatchPages, SquarePages, TiledPages, page_prompt
from embedwell_models.images.patches import PatchPreprocessing
from embedwell_models.images.preprocessing import Preprocessing
from embedwell_models.images.tiles import ImageTokens, TilePreprocessing
from embedwell_models.model_files.modules import ModuleEntry, by_own_code
from embedwell_models.model_files.transformer import read_options
from embedwell_models.tokenizer.formats import TextFormat

log = logging.getLogger(__name__)


def read_preprocessing(encoder: Path, spec: ModelSpec) -> Preprocessing | None:
    """Read that of images with vectors of their own; None for a model without such images.

    encoder: folder of the image encoder. Raises ModelError for an option that is not supported.
    """
    if spec.images is None or spec.images.merge:
        return None
    return Preprocessing.read(encoder, spec.images)


def read_pages(
    folder: Path, encoder: ModuleEntry, spec: ModelSpec
) -> TiledPages | SquarePages | PatchPages | None:
    """Read that of images whose tokens have a vector each; None for a model without such images.

    Raises ModelError for an option that is not supported.
    """
    page_format, images, path = spec.page_format, spec.image_tokens, folder / encoder.path
    if page_format is None:
        return None
    if spec.images is not None:
        kind = TiledPages if page_format.tiles else SquarePages
        return kind.read(path, spec.images, page_format)
    if images is None or _lacks_torch(path):
        return None
    before, after = page_prompt(path, page_format).split(page_format.placeholder)
    bounds = _bounds(folder, encoder, images.pixels)
    patches = PatchPreprocessing.read(path, images, (before, after), bounds)
    return PatchPages(patches) if patches else None


def read_patches(
    folder: Path, encoder: ModuleEntry, spec: ModelSpec, text_format: TextFormat | None
) -> ImageTokens | None:
    """Read that of images which are tokens of a text; None for a model without such images.

    text_format: None for a model whose texts have no room for images. Raises ModelError for an
    option that is not supported.
    """
    if spec.images is not None and spec.images.merge and spec.page_format is None:
        return TilePreprocessing.read(folder / encoder.path, spec.images)
    images = spec.image_tokens
    if images is None or text_format is None or text_format.image.count(images.placeholder) != 1:
        return None
    if _lacks_torch(folder):
        return None
    own_code = by_own_code(folder, encoder)
    before, after = text_format.image.split(images.placeholder)
    patches = PatchPreprocessing.read(
        folder / encoder.path,
        images,
        (before, after),
        _bounds(folder, encoder, images.pixels if own_code else None),
        images.earlier_pixels if own_code else None,
    )
    takes_prompt, single = text_format.instructs_images, text_format.single_images
    return patches and replace(patches, takes_prompt=takes_prompt, single=single)


def _bounds(
    folder: Path, encoder: ModuleEntry, pixels: tuple[int | None, int | None] | None
) -> tuple[int | None, int | None]:
    # Least and most pixels by the authors' code, or by the options of sentence-transformers, which
    # replace the numbers in the processor's file.
    stated = read_options(folder, encoder.path).nested("processor_kwargs")
    least, most = pixels or (None, None)
    return least or stated.get("min_pixels"), most or stated.get("max_pixels")


def _lacks_torch(folder: Path) -> bool:
    # A model whose images are tokens of a text then reads texts only, as the log says.
    if find_spec("torch") is not None:
        return False
    log.warning("%s: texts only, because images need PyTorch: %s", folder, TORCH_MISSING)
    return True
