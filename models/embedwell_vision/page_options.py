"""Options of a model with a vector for each token of a page, from its files."""

from collections.abc import Sequence
from pathlib import Path

from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.model_files.modules import ModuleEntry
from embedwell_models.model_files.multi_vector import (
    ROLES,
    MultiVectorOptions,
    QuerySuffix,
    check_kinds,
    skipped_words,
)
from embedwell_models.model_files.vector_modules import projection_modules
from embedwell_vision.images.pages import read_processor
from embedwell_vision.specs import PageFormat

_KINDS = {"Normalize", "MultiVectorMask"}  # the model's own projection is in its checkpoint


def read(
    folder: Path, entries: Sequence[ModuleEntry], spec: ModelSpec
) -> MultiVectorOptions | None:
    """Read the options of a folder; return None for a model that has other vectors, too.

    Raises ModelError for an option or a module that is not supported.
    """
    page_format, projection = spec.page_format, spec.token_projection
    assert isinstance(page_format, PageFormat)
    if projection is not None and not projection.always:
        return None
    check_kinds(folder, entries, _KINDS)
    if skipped_words(folder, entries)[0]:
        raise ModelError(f"{folder}: skiplist_words of a model of pages are not supported")
    # As the processors of transformers read queries.
    processor = read_processor(folder / entries[0].path)
    prefix = processor.get("query_prefix", page_format.query_prefix)
    prompt = page_format.query_start + prefix + page_format.query_prefix_end * bool(prefix)
    roles = ROLES if page_format.formats_documents else ROLES[:1]
    return MultiVectorOptions(
        modules=tuple(projection_modules(entries[0].path, spec.config.hidden_size, projection)),
        normalize=True,
        query_length=processor.get("q_max_length") or page_format.query_length,
        query_suffix=QuerySuffix(
            page_format.augmentation, page_format.augmentations, page_format.query_end, roles
        ),
        prompts={"document": "", **dict.fromkeys(roles, prompt)},
    )
