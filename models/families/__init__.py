"""Checkpoint families as data: what config.json says, and where the files keep what is needed."""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.families import (
    albert,
    bert,
    bloom,
    clip,
    deberta,
    distilbert,
    dpr,
    electra,
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
    jina_v3,
    llama,
    luke,
    modernbert,
    mpnet,
    mpt,
    nomic,
    qwen,
    roberta,
    roformer,
    t5,
    xlnet,
)
from models.families.remote_code import refuse_unknown_code

FAMILIES: Mapping[str, Callable[[JsonConfig], Blueprint]] = {  # by model_type
    "albert": albert.read,
    "bert": bert.read,
    "bloom": bloom.read,
    "camembert": roberta.read,
    "clip": clip.whole,
    "clip_text_model": clip.read,
    "deberta-v2": deberta.read,
    "distilbert": distilbert.read,
    "dpr": dpr.read,
    "electra": electra.read,
    "ernie": ernie.read,
    "esm": esm.read,
    "eurobert": eurobert.read,
    "gemma": gemma.read,
    "gemma2": gemma.gemma2,
    "gemma3_text": gemma.gemma3,
    "gpt2": gpt2.read,
    "gpt_neo": gpt_neo.read,
    "gpt_neox": gpt_neox.read,
    "gptj": gptj.read,
    "gte": gte.read,
    "jina_embeddings_v3": jina_v3.read,
    "llama": llama.read,
    "llama_bidirec": llama.bidirectional,
    "luke": luke.read,
    "ministral3": llama.ministral3,
    "mistral": llama.mistral,
    "modernbert": modernbert.read,
    "mpnet": mpnet.read,
    "mpt": mpt.read,
    "mt5": t5.read,
    "new": gte.read,
    "nomic_bert": nomic.read,
    "qwen2": qwen.read,
    "qwen3": qwen.qwen3,
    "roberta": roberta.read,
    "roformer": roformer.read,
    "t5": t5.read,
    "umt5": t5.read,
    "xlm-roberta": roberta.read,
    "xlnet": xlnet.read,
}
SHARED: Mapping[tuple[str, str], Callable[[JsonConfig], Blueprint]] = {
    # By model_type and position_embedding_type: code of their own under the name of another.
    ("bert", "alibi"): jina_bert.read,
    ("xlm-roberta", "rotary"): jina_v3.read,
}


def refuse_late_interaction(raw: JsonConfig) -> None:
    """Raise ModelError for a checkpoint of ColBERT v2, which has a vector for each token."""
    if "HF_ColBERT" in raw.get("architectures", ()):
        raise ModelError(
            f"{raw.path}: HF_ColBERT: a model of late interaction (ColBERT v2), which has a vector "
            "for each token and a product for them, is not supported"
        )


def read(folder: Path) -> Blueprint:
    """What a model folder's config.json says.

    Raises ModelError on an unknown family or an option that is not implemented, by its name.
    """
    raw = JsonConfig(folder / "config.json")
    refuse_late_interaction(raw)
    family = raw.among("model_type", FAMILIES, "")
    shared = raw.get("model_type", ""), raw.get("position_embedding_type", "")
    try:
        blueprint = SHARED.get(shared, family)(raw)
    except ValueError as error:  # of sizes that do not fit together
        raise ModelError(f"{raw.path}: {error}") from None
    refuse_unknown_code(raw, blueprint.config.family)
    return blueprint
