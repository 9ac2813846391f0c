"""Families of models: each describes itself in a module of this package."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from embedwell_models.config.checkpoint_layout import CheckpointLayout, ImageSpec
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families import (
    albert,
    bert,
    big_bird,
    biqwen2_5,
    bloom,
    classic,
    clip,
    colidefics3,
    colmodernvbert,
    colpali,
    colqwen2,
    colqwen3,
    colqwen3_5,
    cost_wise_gemma,
    deberta,
    distilbert,
    dpr,
    electra,
    embedding_gemma2,
    ernie,
    esm,
    eurobert,
    gemma,
    gpt2,
    gpt_neo,
    gpt_neox,
    gptj,
    gte,
    jina_bert,
    jina_clip,
    jina_reranker,
    jina_v3,
    jina_v4,
    jina_v5,
    lfm2,
    llama,
    longformer,
    luke,
    m2m_100,
    minicpm,
    modernbert,
    mpnet,
    mpt,
    nemotron_vl,
    neobert,
    nomic,
    nomic_vision,
    nvembed,
    phi3,
    qwen,
    qwen2_5_vl,
    qwen2_vl,
    qwen3_5,
    qwen3_vl,
    roberta,
    roformer,
    siglip,
    static,
    t5,
    t5gemma2,
    xlnet,
    xmod,
)
from embedwell_models.families.family import Family
from embedwell_models.families.remote_code import (
    bidirectional_code,
    refuse_undescribed,
    refuse_unknown_code,
)
from embedwell_models.families.unread_keys import unread_keys

ALL: Sequence[Family] = (  # in the order of the documentation
    *bert.FAMILIES,
    *ernie.FAMILIES,
    *electra.FAMILIES,
    *dpr.FAMILIES,
    *roberta.FAMILIES,
    *xmod.FAMILIES,
    *longformer.FAMILIES,
    *big_bird.FAMILIES,
    *luke.FAMILIES,
    *m2m_100.FAMILIES,
    *roformer.FAMILIES,
    *esm.FAMILIES,
    *distilbert.FAMILIES,
    *albert.FAMILIES,
    *mpnet.FAMILIES,
    *deberta.FAMILIES,
    *t5.FAMILIES,
    *xlnet.FAMILIES,
    *nomic.FAMILIES,
    *jina_bert.FAMILIES,
    *jina_v3.FAMILIES,
    *jina_v4.FAMILIES,
    *jina_v5.FAMILIES,
    *jina_reranker.FAMILIES,
    *gte.FAMILIES,
    *modernbert.FAMILIES,
    *eurobert.FAMILIES,
    *neobert.FAMILIES,
    *llama.FAMILIES,
    *nemotron_vl.FAMILIES,
    *minicpm.FAMILIES,
    *phi3.FAMILIES,
    *nvembed.FAMILIES,
    *qwen.FAMILIES,
    *qwen2_vl.FAMILIES,
    *qwen2_5_vl.FAMILIES,
    *biqwen2_5.FAMILIES,
    *qwen3_vl.FAMILIES,
    *qwen3_5.FAMILIES,
    *gemma.FAMILIES,
    *cost_wise_gemma.FAMILIES,
    *t5gemma2.FAMILIES,
    *embedding_gemma2.FAMILIES,
    *gpt2.FAMILIES,
    *gpt_neo.FAMILIES,
    *gpt_neox.FAMILIES,
    *gptj.FAMILIES,
    *bloom.FAMILIES,
    *mpt.FAMILIES,
    *lfm2.FAMILIES,
    *clip.FAMILIES,
    *siglip.FAMILIES,
    *jina_clip.FAMILIES,
    *colmodernvbert.FAMILIES,
    *colidefics3.FAMILIES,
    *colpali.FAMILIES,
    *colqwen2.FAMILIES,
    *colqwen3.FAMILIES,
    *colqwen3_5.FAMILIES,
    *static.FAMILIES,
    *classic.FAMILIES,
)
BY_MODEL_TYPE: Mapping[str, Family] = {name: family for family in ALL for name in family.own_types}
_VARIANTS = [(variant, family) for family in ALL for variant in family.variants]
_BY_NAME: Mapping[str, Family] = {name: family for family in ALL for name in family.names}


def named(name: str) -> Family:
    """Return the family with a name of EncoderConfig."""
    return _BY_NAME[name]


def names(has: Callable[[Family], bool]) -> list[str]:
    """List the sorted names of the families that have something."""
    return sorted(name for name, family in _BY_NAME.items() if has(family))


def read(folder: Path) -> CheckpointLayout:
    """Read the spec of a checkpoint from the config.json of its folder.

    Raises ModelError for an unknown family and for an option that is not supported.
    """
    options = JsonConfig(folder / "config.json")
    refuse_undescribed(options)
    return layout_of(_family(options), options)


def read_images(folder: Path) -> ImageSpec:
    """Read the spec of the image encoder of a folder, which may have a text encoder, too.

    Raises ModelError for a folder without an image encoder, and as `read` does.
    """
    options = JsonConfig(folder / "config.json")
    if nomic.is_vision(options):
        spec = nomic_vision.read(options)
        unread = unread_keys(options, nomic_vision.IGNORED)
        return replace(spec, encoder=replace(spec.encoder, unread_keys=unread))
    images = read(folder).images
    if images is None:
        raise ModelError(f"{folder}: it has no image encoder")
    return images


def layout_of(family: Family, options: JsonConfig) -> CheckpointLayout:
    """Build the layout of a checkpoint of this family; raises ModelError as `read` does."""
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
        for variant, family in _VARIANTS
        if variant.model_type == name and variant.applies(options)
    )
    return next(applying, None) or options.choice("model_type", BY_MODEL_TYPE, "")
