"""Code of repositories (`auto_map`), which is not run: what a family has in its place."""

from collections.abc import Mapping

from models.config.json_config import JsonConfig

EQUAL: Mapping[str, tuple[str, ...]] = {  # by family: classes that it computes the same as
    "eurobert": ("EuroBertModel",),
    "gte": ("GteModel", "NewModel"),
    "jina_bert": ("JinaBertModel",),
    "jina_embeddings_v3": ("XLMRobertaLoRA", "XLMRobertaModel"),
    "llama_bidirec": ("LlamaBidirectionalModel",),
    "new": ("GteModel", "NewModel"),
    "nomic_bert": ("NomicBertModel",),
}


def refuse_unknown_code(raw: JsonConfig, family: str) -> None:
    """Raise ModelError where config.json names a model of its own that no family equals.

    A decoder whose config.json says `is_causal` is one of its family: see families.decoder.
    """
    code = raw.get("auto_map", {}).get("AutoModel")
    if code is None or "is_causal" in raw:
        return
    known = EQUAL.get(family, ())
    if str(code).rpartition(".")[2] not in known:
        raise raw.refusal("auto_map", {"AutoModel": code}, f"{known}; code of a model is not run")
