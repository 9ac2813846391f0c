"""Families of models: each describes itself in a module, which a model of it imports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.families import index
from embedwell_models.families.family import Family
from embedwell_models.families.unread_config import (
    bidirectional_code,
    refuse_undescribed,
    refuse_unknown_code,
    unread_keys,
)


def _of(package: str, *modules: str) -> Iterator[str]:
    return (f"embedwell_{package}.families.{module}" for module in modules)


MODULES: Sequence[str] = (  # in the order of the documentation
    "bert",
    *_of("rare", "ernie", "electra", "dpr"),
    "roberta",
    *_of("rare", "xmod", "longformer", "big_bird", "luke", "m2m_100", "roformer", "esm"),
    "distilbert",
    *_of("rare", "albert"),
    *("mpnet", "deberta", "t5"),
    *_of("rare", "xlnet"),
    *("nomic", "jina_bert", "jina_v3"),
    *_of("vision", "jina_v4"),
    *("jina_v5", "jina_reranker", "gte", "modernbert", "eurobert"),
    *_of("rare", "neobert"),
    "llama",
    *_of("vision", "nemotron_vl"),
    *_of("rare", "minicpm", "phi3", "nvembed"),
    "qwen",
    *_of("vision", "qwen2_vl", "qwen2_5_vl", "biqwen2_5", "qwen3_vl"),
    *_of("rare", "qwen3_5"),
    "gemma",
    *_of("rare", "cost_wise_gemma", "t5gemma2"),
    *_of("vision", "embedding_gemma2"),
    *_of("rare", "gpt2", "gpt_neo", "gpt_neox", "gptj", "bloom", "mpt", "lfm2"),
    *_of("vision", "clip", "siglip", "jina_clip", "colmodernvbert", "colidefics3", "colpali"),
    *_of("vision", "colqwen2", "colqwen3", "colqwen3_5"),
    "static",
    *_of("decide", "laya", "gliclass", "gliner2"),
    *_of("classic", "mobilebert", "canine", "funnel", "laser", "elmo", "doc2vec", "word_vectors"),
)
"""The modules with records of families: of this package, and by their full names of wings."""


def every_family() -> list[Family]:
    """Import all families, in the order of the documentation."""
    return [family for module in MODULES for family in families_of(module)]


def by_model_type() -> Mapping[str, Family]:
    """Import all families, and return each by its own values of model_type."""
    return {name: family for family in every_family() for name in family.own_types}


def named(name: str) -> Family:
    """Return the family with a name of EncoderConfig."""
    if module := index.NAMES.get(name):
        families = families_of(module)
    else:
        from embedwell_models.families import installed  # reads the packages of the environment

        # A family with a name of its own has entry points for its model types alone.
        families = installed.families_of(name) or installed.every_family()
    return next(family for family in families if name in family.names)


def names(has: Callable[[Family], bool]) -> list[str]:
    """List the sorted names of the families that have something."""
    return sorted(name for family in every_family() if has(family) for name in family.names)


def of_model_type(model_type: str) -> Family | None:
    """Return the family of a model_type unless a variant applies; None if there is none."""
    return next((each for each in _candidates(model_type) if model_type in each.own_types), None)


def _candidates(model_type: str) -> Iterator[Family]:
    """Import the families of the modules that a model_type may be of; raises ModelError.

    Other packages are only asked for a model_type that this one does not have.
    """
    if modules := index.MODEL_TYPES.get(model_type):
        for module in modules:
            yield from families_of(module)
    elif model_type and model_type not in index.NAMES:
        from embedwell_models.families import installed  # reads the packages of the environment

        yield from installed.families_of(model_type)


@cache
def families_of(module: str) -> Sequence[Family]:
    """Import the records of a module, of MODULES or of the index."""
    families: Sequence[Family] = _import(module).FAMILIES
    return families


def _import(module: str) -> ModuleType:
    return import_module(module if "." in module else f"{__name__}.{module}")


def read(folder: Path) -> ModelSpec:
    """Read the spec of a model from the config.json of its folder.

    Raises ModelError for an unknown family and for an option that is not supported.
    """
    options = JsonConfig(folder / "config.json")
    refuse_undescribed(options)
    return spec_of(_family(options), options)


def read_table(name: str, folder: Path) -> ModelSpec:
    """Read the spec of a folder of a table, by the name of its family; raises ModelError."""
    spec: ModelSpec = _import(index.NAMES[name]).read_folder(folder)
    return spec


def spec_of(family: Family, options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of this family; raises ModelError as `read` does."""
    assert family.read is not None, "only a table has no reader, and it has no model_type"
    try:
        spec = family.read(options)
        if not family.encoder_loader:
            spec.check_tensor_names()
    except ValueError as error:  # inconsistent sizes
        raise ModelError(f"{options.path}: {error}") from None
    refuse_unknown_code(options, family.replaced_code)
    config = replace(spec.config, family=family.name or options["model_type"])
    unread = (*spec.unread_keys, *unread_keys(options, family.ignored_keys))
    code = "" if family.replaced_code else bidirectional_code(options)
    return replace(spec, config=config, bidirectional_code=code, unread_keys=unread)


def _family(options: JsonConfig) -> Family:
    name = options.get("model_type", "")
    applying = (
        family
        for family in _candidates(name)
        for variant in family.variants
        if variant.model_type == name and variant.applies(options)
    )
    family = next(applying, None) or of_model_type(name)
    if family is None:
        raise _unknown(options, name)
    return family


def _unknown(options: JsonConfig, name: str) -> ModelError:
    """Build the error for a family that is not supported; raises ModelError if none is named."""
    from difflib import get_close_matches

    from embedwell_models.families import installed  # reads the packages of the environment

    known = {*filter(None, index.MODEL_TYPES), *installed.model_types()}
    similar = get_close_matches(str(options["model_type"]), sorted(known))
    named = f"; similar names that are: {', '.join(similar)}" if similar else ""
    return ModelError(
        f"{options.path}: model_type = {name!r} is not supported{named}; docs/models.md has all"
    )
