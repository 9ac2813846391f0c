"""Preprocessing of a model's images, as its files state it."""

import logging
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from embedwell_models import families
from embedwell_models.config.json_config import IMAGE_FILES, JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import TORCH_MISSING, ModelError
from embedwell_models.families import nomic
from embedwell_models.families.unread_config import unread_keys
from embedwell_models.model_files.chat_template import (
    keeps_texts,
    read_text_format,
    template_files,
)
from embedwell_models.model_files.modules import IMAGE_ENCODER, ModuleEntry, by_own_code
from embedwell_models.model_files.transformer import read_options
from embedwell_models.outputs.names import DENSE
from embedwell_models.tokenizer.formats import TextFormat
from embedwell_models.vectors import Floats
from embedwell_vision.families import nomic_vision
from embedwell_vision.images import filled_patches, pages, preprocessing
from embedwell_vision.images.filled_patches import FilledPatchPreprocessing
from embedwell_vision.images.pages import SquarePages, TiledPages, page_prompt
from embedwell_vision.images.patches import PatchPreprocessing
from embedwell_vision.images.preprocessing import Preprocessing
from embedwell_vision.images.tiles import ImageTokens, TilePreprocessing
from embedwell_vision.specs import ImageSpec, ImageTokenSpec, PageFormat

log = logging.getLogger(__name__)


def with_images(description: ModelDescription, encoder: ModuleEntry) -> ModelDescription:
    """Return the description with the preprocessing of its images, if it states any.

    Their encoder may be that of another model. Raises ModelError for an option that is not
    supported.
    """
    path, spec, images = description.path, description.spec, description.encoder
    has_other = (path / IMAGE_ENCODER).is_dir()
    if has_other:
        images = path / IMAGE_ENCODER
        spec = replace(spec, images=read_other_encoder(images), image_tokens=None)
    embeds = not description.classifier and not description.multi_vector
    text_format = description.recipe.text_format if embeds else None
    if embeds and isinstance(spec.image_tokens, ImageTokenSpec) and spec.image_tokens.of_gemma:
        text_format = _plain_format(path / encoder.path)
    description = replace(
        description,
        spec=spec,
        image_encoder=images,
        preprocessing=_read_preprocessing(images, spec),
        patches=_read_patches(path, encoder, spec, text_format),
        pages=_read_pages(path, encoder, spec),
    )
    if has_other:
        _check_other_encoder(description)
    return description


def read_other_encoder(folder: Path) -> ImageSpec:
    """Read the spec of the image encoder of a folder, which may have a text encoder, too.

    Raises ModelError for a folder without one, and for an option that is not supported.
    """
    options = JsonConfig(folder / "config.json")
    if nomic.is_vision(options):
        spec = nomic_vision.read(options)
        unread = unread_keys(options, nomic_vision.IGNORED)
        return replace(spec, encoder=replace(spec.encoder, unread_keys=unread))
    images = families.read(folder).images
    if not isinstance(images, ImageSpec):
        raise ModelError(f"{folder}: it has no image encoder")
    return images


def _check_other_encoder(description: ModelDescription) -> None:
    # Of an image encoder that was trained for the vectors of this model.
    spec = description.spec.images
    if description.outputs[:1] != (DENSE,) or not isinstance(spec, ImageSpec):
        raise ModelError(f"{description.path}: a model without dense vectors takes no images")
    if not description.preprocessing:
        raise ModelError(f"{description.image_encoder}: it has no {IMAGE_FILES[1]}")
    if spec.width != description.dim:
        raise ModelError(
            f"{description.path}: vectors of texts have {description.dim} dimensions, vectors "
            f"of images {spec.width}: they cannot be compared"
        )


def files(model: ModelDescription) -> list[Path]:
    """List the files that decide the pixels of a model's images; some may not exist."""
    options = []
    if model.preprocessing:
        options += preprocessing.files(model.image_encoder)
        options.append(model.image_encoder / "config.json")
    if isinstance(model.patches, TilePreprocessing):
        options.append(model.encoder / IMAGE_FILES[0])
    elif model.patches:
        options += preprocessing.files(model.encoder)
    if isinstance(model.patches, FilledPatchPreprocessing):
        options += template_files(model.encoder)
    return options + (pages.files(model.encoder) if model.pages else [])


def value_table(model: ModelDescription) -> Floats | None:
    """Return the normalised value for each channel and byte of an image, (3, 256).

    None for a model whose images are patches of any number.
    """
    described = model.preprocessing or model.pages or model.patches
    if isinstance(described, Preprocessing | TiledPages | SquarePages | TilePreprocessing):
        return described.table()
    return None


def _read_preprocessing(encoder: Path, spec: ModelSpec) -> Preprocessing | None:
    """Read that of images with vectors of their own; None for a model without such images.

    encoder: folder of the image encoder. Raises ModelError for an option that is not supported.
    """
    if not isinstance(spec.images, ImageSpec) or spec.images.merge:
        return None
    return Preprocessing.read(encoder, spec.images)


def _read_pages(
    folder: Path, encoder: ModuleEntry, spec: ModelSpec
) -> TiledPages | SquarePages | PatchPreprocessing | None:
    """Read that of images whose tokens have a vector each; None for a model without such images.

    Raises ModelError for an option that is not supported.
    """
    page_format, images, path = spec.page_format, spec.image_tokens, folder / encoder.path
    if not isinstance(page_format, PageFormat):
        return None
    if isinstance(spec.images, ImageSpec):
        kind = TiledPages if page_format.tiles else SquarePages
        return kind.read(path, spec.images, page_format)
    if not isinstance(images, ImageTokenSpec) or _lacks_torch(path, images):
        return None
    before, after = page_prompt(path, page_format).split(page_format.placeholder)
    bounds = _bounds(folder, encoder, images.pixels)
    read = PatchPreprocessing.read(path, images, (before, after), bounds)
    return read and replace(read, takes_prompt=False)


def _read_patches(
    folder: Path, encoder: ModuleEntry, spec: ModelSpec, text_format: TextFormat | None
) -> ImageTokens | None:
    """Read that of images which are tokens of a text; None for a model without such images.

    text_format: None for a model whose texts have no room for images. Raises ModelError for an
    option that is not supported.
    """
    squares, images = spec.images, spec.image_tokens
    if isinstance(squares, ImageSpec) and squares.merge and spec.page_format is None:
        return TilePreprocessing.read(folder / encoder.path, squares)
    if not isinstance(images, ImageTokenSpec) or text_format is None:
        return None
    if text_format.image.count(images.placeholder) != 1:
        return None
    if _lacks_torch(folder, images):
        return None
    own_code = by_own_code(folder, encoder)
    before, after = text_format.image.split(images.placeholder)
    kind = FilledPatchPreprocessing if images.of_gemma else PatchPreprocessing
    read = kind.read(
        folder / encoder.path,
        images,
        (before + images.around[0], images.around[1] + after),
        _bounds(folder, encoder, images.pixels if own_code else None),
        images.earlier_pixels if own_code else None,
    )
    takes_prompt, single = text_format.instructs_images, text_format.single_images
    return read and replace(read, takes_prompt=takes_prompt, single=single)


def _plain_format(encoder: Path) -> TextFormat | None:
    """Return the format of a template that keeps a text as it is, with its text of an image.

    None for a folder without such a template, or without preprocessing of images.
    """
    if not filled_patches.files(encoder) or not keeps_texts(encoder):
        return None
    return read_text_format(encoder, {}, "structured")


def _bounds(
    folder: Path, encoder: ModuleEntry, pixels: tuple[int | None, int | None] | None
) -> tuple[int | None, int | None]:
    # Least and most pixels by the authors' code, or by the options of sentence-transformers, which
    # replace the numbers in the processor's file.
    stated = read_options(folder, encoder.path).nested("processor_kwargs")
    least, most = pixels or (None, None)
    return least or stated.get("min_pixels"), most or stated.get("max_pixels")


def _lacks_torch(folder: Path, images: ImageTokenSpec) -> bool:
    # A model whose images are tokens of a text then reads texts only, as the log says.
    if find_spec("torch") is not None:
        return False
    from embedwell_models.cpu_backend import library
    from embedwell_models.cpu_backend.support import why_unsupported

    has_kernels = library.best_isa("float32", library.features("auto")) is not None
    if has_kernels and not why_unsupported(images.encoder.config, {}):
        return False
    log.warning("%s: texts only, because images need PyTorch: %s", folder, TORCH_MISSING)
    return True
