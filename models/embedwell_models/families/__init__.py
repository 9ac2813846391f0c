"""Families of checkpoints: readers of config.json, and names of the tensors."""

from collections.abc import Callable, Mapping
from pathlib import Path

from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families import (
    albert,
    bert,
    big_bird,
    bloom,
    canine,
    clip,
    deberta,
    distilbert,
    doc2vec,
    dpr,
    electra,
    elmo,
    embedding_gemma2,
    ernie,
    esm,
    eurobert,
    funnel,
    gemma,
    gpt2,
    gpt_neo,
    gpt_neox,
    gptj,
    gte,
    jina_bert,
    jina_v3,
    laser,
    lfm2,
    llama,
    longformer,
    luke,
    mobilebert,
    modernbert,
    mpnet,
    mpt,
    neobert,
    nomic,
    nvembed,
    phi3,
    qwen,
    qwen3_vl,
    roberta,
    roformer,
    siglip,
    t5,
    xlnet,
)
from embedwell_models.families.remote_code import refuse_undescribed, refuse_unknown_code

FAMILIES: Mapping[str, Callable[[JsonConfig], CheckpointSpec]] = {  # by model_type
    "albert": albert.read,
    "bert": bert.read,
    "bidirectional_pplx_qwen3": qwen.pplx,
    "big_bird": big_bird.read,
    "bloom": bloom.read,
    "camembert": roberta.read,
    "canine": canine.read,
    "clip": clip.text_and_images,
    "clip_text_model": clip.text_only,
    "deberta-v2": deberta.read,
    "distilbert": distilbert.read,
    "doc2vec": doc2vec.read,
    "dpr": dpr.read,
    "electra": electra.read,
    "elmo": elmo.read,
    "embedding_gemma2": embedding_gemma2.read,
    "embedding_gemma2_text": embedding_gemma2.text_only,
    "ernie": ernie.read,
    "esm": esm.read,
    "eurobert": eurobert.read,
    "funnel": funnel.read,
    "gemma": gemma.read,
    "gemma2": gemma.gemma2,
    "gemma3_text": gemma.gemma3,
    "gpt2": gpt2.read,
    "gpt_neo": gpt_neo.read,
    "gpt_neox": gpt_neox.read,
    "gptj": gptj.read,
    "gte": gte.read,
    "jina_embeddings_v3": jina_v3.read,
    "laser2": laser.lstm,
    "laser3": laser.transformer,
    "lfm2": lfm2.read,
    "llama": llama.read,
    "llama_bidirec": llama.bidirectional,
    "longformer": longformer.read,
    "luke": luke.read,
    "ministral3": llama.ministral3,
    "mistral": llama.mistral,
    "mobilebert": mobilebert.read,
    "modernbert": modernbert.read,
    "mpnet": mpnet.read,
    "mpt": mpt.read,
    "mt5": t5.read,
    "neobert": neobert.read,
    "new": gte.read,
    "nomic_bert": nomic.read,
    "nvembed": nvembed.read,
    "phi3": phi3.read,
    "qwen2": qwen.read,
    "qwen3": qwen.qwen3,
    "qwen3_vl": qwen3_vl.read,
    "qwen3_vl_text": qwen3_vl.text_only,
    "roberta": roberta.read,
    "roformer": roformer.read,
    "siglip": siglip.text_and_images,
    "t5": t5.read,
    "umt5": t5.read,
    "xlm-roberta": roberta.read,
    "xlnet": xlnet.read,
}
VARIANTS: Mapping[tuple[str, str], Callable[[JsonConfig], CheckpointSpec]] = {
    # By model_type and position_embedding_type: different models with the model_type of a family.
    ("bert", "alibi"): jina_bert.read,
    ("xlm-roberta", "rotary"): jina_v3.read,
}


def read(folder: Path) -> CheckpointSpec:
    """Read the spec of a checkpoint from the config.json of its folder.

    Raises ModelError for an unknown family and for an option that is not supported.
    """
    options = JsonConfig(folder / "config.json")
    refuse_undescribed(options)
    family = options.choice("model_type", FAMILIES, "")
    variant = options.get("model_type", ""), options.get("position_embedding_type", "")
    try:
        spec = VARIANTS.get(variant, family)(options)
    except ValueError as error:  # inconsistent sizes
        raise ModelError(f"{options.path}: {error}") from None
    refuse_unknown_code(options, spec.config.family)
    return spec
