"""Checkpoint families as data: what config.json says, and where the files keep what is needed."""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.blueprint import Blueprint
from models.errors import ModelError
from models.families import (
    albert,
    bert,
    bloom,
    clip,
    deberta,
    distilbert,
    electra,
    ernie,
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
    modernbert,
    mpnet,
    mpt,
    nomic,
    qwen,
    roberta,
    t5,
    xlnet,
)
from models.raw import Raw

FAMILIES: Mapping[str, Callable[[Raw], Blueprint]] = {  # by model_type
    "albert": albert.read,
    "bert": bert.read,
    "bloom": bloom.read,
    "camembert": roberta.read,
    "clip": clip.whole,
    "clip_text_model": clip.read,
    "deberta-v2": deberta.read,
    "distilbert": distilbert.read,
    "electra": electra.read,
    "ernie": ernie.read,
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
    "t5": t5.read,
    "xlm-roberta": roberta.read,
    "xlnet": xlnet.read,
}
SHARED: Mapping[tuple[str, str], Callable[[Raw], Blueprint]] = {
    # By model_type and position_embedding_type: code of their own under the name of another.
    ("bert", "alibi"): jina_bert.read,
    ("xlm-roberta", "rotary"): jina_v3.read,
}


def read(folder: Path) -> Blueprint:
    """What a model folder's config.json says.

    Raises ModelError on an unknown family or an option that is not implemented, by its name.
    """
    raw = Raw(folder / "config.json")
    family = raw.among("model_type", FAMILIES, "")
    shared = raw.get("model_type", ""), raw.get("position_embedding_type", "")
    try:
        return SHARED.get(shared, family)(raw)
    except ValueError as error:  # of sizes that do not fit together
        raise ModelError(f"{raw.path}: {error}") from None
