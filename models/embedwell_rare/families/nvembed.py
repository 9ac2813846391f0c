"""NV-Embed (Lee et al. 2024, arXiv 2405.17428): a Mistral, and attention to trained latents.

Its Mistral is bidirectional and has no window. Defaults are those of its own code.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import llama
from embedwell_models.families.family import DocsRow, Family
from embedwell_rare.latent_attention import LatentSpec

_LATENTS = "latent_attention_model."
_MISTRAL = {
    **{"vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336},
    **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
    "max_position_embeddings": 131_072,
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an NV-Embed, version 1 or 2."""
    options.require("add_eos", True)
    options.require("padding_side", "right")
    options.require("mask_type", "b")
    text = options.nested("text_config").with_defaults(_MISTRAL)
    text.require("model_type", "bidir_mistral")
    config = llama.config(text, causal=False)
    spec = llama.spec(config, llama.tensors(False, False, False))
    return replace(
        spec,
        unused=(*spec.unused, f"{_LATENTS}*"),
        prefixes=("embedding_model.",),
        state_layers=_latents(options, config.hidden_size),
    )


def _latents(options: JsonConfig, width: int) -> LatentSpec:
    latents = options.nested("latent_attention_config")
    latents.require("model_type", "latent_attention")
    for key in ("hidden_dim", "latent_dim"):
        if latents.get(key, 4096) != width:
            raise latents.unsupported(key, latents.get(key, 4096), width)
    return LatentSpec(
        prefix=_LATENTS,
        width=width,
        count=latents.get("num_latents_value", 512),
        heads=latents.get("num_cross_heads", 8),
        head_size=latents.get("cross_dim_head", 4096),
        inner=4 * width,
        include_prompt=not options.get("is_mask_instruction", True),
        normalize=latents.get("output_normalize", True),
    )


FAMILIES = (
    Family(
        model_types=("nvembed",),
        read=read,
        ends_texts=True,
        replaced_code=("NVEmbedModel",),
        row=DocsRow(
            "NV-Embed v1, v2",
            "NV-Embed-v2",
            positions="rotary",
            layers="as Mistral, bidirectional; then latent attention",
        ),
    ),
)
