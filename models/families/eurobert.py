"""EuroBERT (Boizard et al. 2025, arXiv 2503.05500): a Llama that sees the whole text."""

from models.config.blueprint import Blueprint
from models.config.json_config import JsonConfig
from models.families import llama


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a EuroBERT."""
    biased = raw.get("attention_bias", False)
    return Blueprint(
        config=llama.config(raw, causal=False, norm_eps=raw.get("rms_norm_eps", 1e-5)),
        tensors=llama.tensors(biased, biased, raw.get("mlp_bias", False)),
        unused=("lm_head.*", "dense.*", "classifier.*"),
        prefixes=("model.",),
    )
