"""Qwen2 (Yang et al. 2024, arXiv 2407.10671), Qwen3 (arXiv 2505.09388) and related models."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import llama
from embedwell_models.families.decoder import is_causal, layer_windows, sliding_window
from embedwell_models.families.family import DocsRow, Family, NextToken, Variant
from embedwell_models.families.heads import decoder


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Qwen2: a Llama whose queries, keys and values have biases."""
    causal = is_causal(options, "Qwen2")
    config = llama.config(options, causal=causal, windows=windows(options, causal))
    return llama.spec(config, llama.tensors(True, False, False))


def qwen3(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Qwen3: each query head and key head is normalised."""
    return of_qwen3(options, is_causal(options, "Qwen3"))


def pplx(options: JsonConfig) -> ModelSpec:
    """Build the spec of Perplexity's pplx-embed, a bidirectional Qwen3."""
    options.require("use_bidirectional_attention", True)
    return of_qwen3(options, causal=False)


def _is_voyage(options: JsonConfig) -> bool:
    code = str(options.get("auto_map", {}).get("AutoModel", "")).rpartition(".")[2]
    return code == _VOYAGE_CODE and bool(options.get("use_bidirectional_attention", False))


def voyage(options: JsonConfig) -> ModelSpec:
    """Build the spec of voyage-4-nano, with its token projection applied to the mean.

    The projection has no bias, so the result is the mean of the projected states.
    """
    spec = of_qwen3(options, causal=False)
    projection = Projection(tensor="linear.weight", width=options["num_labels"], pooling="mean")
    return replace(spec, projection=projection, unused=(*spec.unused, projection.tensor))


def of_qwen3(options: JsonConfig, causal: bool) -> ModelSpec:
    """Build the spec of a Qwen3. causal: whether a token attends to earlier tokens only."""
    biased = options.get("attention_bias", False)
    visible = windows(options, causal)
    config = llama.config(options, head_size=128, causal=causal, windows=visible)
    return llama.spec(config, llama.tensors(biased, biased, False) | NORMS)


_VOYAGE_CODE = "Qwen3BidirectionalModel"
NORMS = {
    **linear("layers.{}.self_attn.q_norm", "layers.{}.query_norm"),
    **linear("layers.{}.self_attn.k_norm", "layers.{}.key_norm"),
}


def windows(options: JsonConfig, causal: bool) -> tuple[int | None, ...]:
    """Read the number of visible tokens on each side for each layer; None for the whole text."""
    window = sliding_window(options) if options.get("use_sliding_window", False) else None
    first = options.get("max_window_layers", 28)
    return layer_windows(options, causal, window, lambda layer: layer >= first)


_ROW = DocsRow(
    "Qwen 2, Qwen 3",
    "gte-Qwen2, stella_en_1.5B, Qwen3-Embedding, Octen, F2LLM-v2, harrier-oss 0.6b",
    positions="rotary",
    layers="as Llama; Qwen 3 normalises queries and keys",
)
_QWEN2 = Family(
    model_types=("qwen2",),
    read=read,
    classification_head=decoder,
    next_token=NextToken(tied=False),
    tokenizer_override="nothing",
    row=_ROW,
)
_PPLX = Family(
    model_types=("bidirectional_pplx_qwen3",),
    read=pplx,
    replaced_code=("PPLXQwen3Model",),
    row=DocsRow(
        "pplx-embed v1",
        "pplx-embed-v1-0.6b, -4b",
        positions="rotary",
        layers="as Qwen 3, bidirectional; [integer vectors](#limits-of-single-families)",
    ),
)
_VOYAGE = Family(
    model_types=(Variant("qwen3", "use_bidirectional_attention", _is_voyage),),
    name="voyage",
    read=voyage,
    replaced_code=(_VOYAGE_CODE,),
    row=DocsRow(
        "Voyage",
        "voyage-4-nano",
        positions="rotary",
        layers="as Qwen 3, bidirectional; projection after mean pooling",
    ),
)
FAMILIES = (
    _QWEN2,
    replace(_QWEN2, model_types=("qwen3",), read=qwen3),
    _PPLX,
    _VOYAGE,
)
