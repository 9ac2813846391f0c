"""Code in model repositories (`auto_map`) is never run: which classes a family replaces."""

from collections.abc import Mapping

from models.config.json_config import JsonConfig

REPLACED: Mapping[str, tuple[str, ...]] = {  # by family: classes of remote code that it computes
    "bidirectional_pplx_qwen3": ("PPLXQwen3Model",),
    "eurobert": ("EuroBertModel",),
    "gte": ("GteModel", "NewModel"),
    "jina_bert": ("JinaBertModel",),
    "jina_embeddings_v3": ("XLMRobertaLoRA", "XLMRobertaModel"),
    "llama_bidirec": ("LlamaBidirectionalModel",),
    "neobert": ("NeoBERT",),
    "new": ("GteModel", "NewModel"),
    "nomic_bert": ("NomicBertModel",),
    "nvembed": ("NVEmbedModel",),
    "voyage": ("Qwen3BidirectionalModel",),
}


def refuse_unknown_code(options: JsonConfig, family: str) -> None:
    """Raise ModelError if config.json names remote code that the family does not replace.

    With `is_causal` in config.json, a decoder counts as one of its family: see families.decoder.
    """
    code = options.get("auto_map", {}).get("AutoModel")
    if code is None or "is_causal" in options:
        return
    replaced = REPLACED.get(family, ())
    if str(code).rpartition(".")[2] not in replaced:
        raise options.unsupported(
            "auto_map", {"AutoModel": code}, f"{replaced}; code of a model is not run"
        )
