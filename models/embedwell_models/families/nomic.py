"""NomicBERT (Nussbaum et al. 2024, arXiv 2402.01613), with Nomic's or transformers' names.

Nomic Embed v2 (Nussbaum and Duderstadt 2025, arXiv 2502.07972) has experts.
"""

from dataclasses import replace

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear
from embedwell_models.errors import ModelError
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import PREDICTIONS, masked_lm_head, two_layers
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Rotary, Scaling, Scheme

_OWN, _LAYER = "encoder.layers.{}", "layers.{}"
_COMMON = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.token_type_embeddings.weight": "segment_table",
}
_TENSORS = {
    **affine("embeddings.LayerNorm", "norm"),
    **linear(f"{_LAYER}.self_attn.q_proj", "layers.{}.query"),
    **linear(f"{_LAYER}.self_attn.k_proj", "layers.{}.key"),
    **linear(f"{_LAYER}.self_attn.v_proj", "layers.{}.value"),
    **linear(f"{_LAYER}.self_attn.o_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.post_attention_layernorm", "layers.{}.attention_norm"),
    **linear(f"{_LAYER}.mlp.up_proj", "layers.{}.up"),
    **linear(f"{_LAYER}.mlp.gate_proj", "layers.{}.gate"),
    **linear(f"{_LAYER}.mlp.down_proj", "layers.{}.down"),
    **affine(f"{_LAYER}.post_mlp_layernorm", "layers.{}.ffn_norm"),
}
_VISION = "NomicVisionModel"
GATES = {"swiglu": "silu", "geglu": "gelu"}  # the activation of the gate
_MULTIPLE = 256  # Nomic's code rounds the width of gated networks up to a multiple of this
_REQUIRED = {  # the supported values of further options of Nomic's code
    "prenorm": False,
    "parallel_block": False,
    "causal": False,
    "use_rms_norm": False,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "rotary_emb_scale_base": None,
    "rotary_head_dim": False,
    "moe_normalize_expert_weights": False,
    "expert_choice_router": False,
    "num_shared_experts": 0,
}
_EXPERTS = {
    f"{_OWN}.mlp.router.layer.weight": "layers.{}.router.weight",
    f"{_OWN}.mlp.experts.mlp.w1": "layers.{}.experts_up.weight",
    f"{_OWN}.mlp.experts.mlp.w2": "layers.{}.experts_down.weight",
    f"{_OWN}.mlp.experts.bias": "layers.{}.experts.bias",
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a NomicBERT; Nomic's own config.json uses GPT-2's keys.

    Raises ModelError for an image encoder, which has no texts.
    """
    if is_vision(options):
        raise ModelError(
            f"{options.path}: it has images only: serve the model of the texts, and name this one "
            "in EMBEDWELL_IMAGE_MODEL (image_model= in Python)"
        )
    if options.get("n_embd"):
        config = _nomic_config(options)
        keys = ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")
        tensors = _names(config.feed_forward.gated, *(options.get(key, True) for key in keys))
        tensors |= _EXPERTS
    else:
        config, tensors = _transformers_config(options), _TENSORS | _names()
    return ModelSpec(
        config=config,
        tensors=tensors,
        unused=bert.UNUSED,
        prefixes=("bert.", "nomic_bert."),
    )


def is_vision(options: JsonConfig) -> bool:
    """Whether config.json is that of Nomic Embed Vision."""
    return _VISION in options.get("architectures", [])


def _transformers_config(options: JsonConfig) -> EncoderConfig:
    head_size = options.get("head_dim", options["hidden_size"] // options["num_attention_heads"])
    positions = rotary(options, head_size, base=1000.0)
    return bert.config(
        options,
        activation=options.choice("hidden_act", ACTIVATIONS, "silu"),
        head_size=head_size,
        input_positions=Scheme(),
        positions=positions,
        gated=True,
    )


def _nomic_config(options: JsonConfig) -> EncoderConfig:
    for key, value in _REQUIRED.items():
        options.require(key, value)
    activation = options.choice("activation_function", {**GATES, "gelu": "gelu"})
    gated = options["activation_function"] in GATES
    interval = options.get("moe_every_n_layers", 0)
    if interval and gated:
        raise options.unsupported("moe_every_n_layers", interval, "0 with a gated activation")
    width, heads = options["n_embd"], options["n_head"]
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options["n_layer"],
        num_heads=heads,
        intermediate_size=intermediate_size(options, width, gated),
        max_positions=options["n_positions"],
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        activation=activation,
        positions=_rotary(options, width // heads),
        gated=gated,
        segments=True,
    )
    return _with_experts(config, options, interval) if interval else config


def _with_experts(config: EncoderConfig, options: JsonConfig, interval: int) -> EncoderConfig:
    experts, top = options["num_experts"], options["moe_top_k"]
    if not 0 < top <= experts:
        raise options.unsupported("moe_top_k", top, f"1 to {experts}")
    mixture = replace(config.feed_forward, experts=experts, top=top)
    layers = (
        replace(layer, feed_forward=mixture) if index % interval == 1 else layer
        for index, layer in enumerate(config.layers)
    )
    return replace(config, layers=tuple(layers))


def intermediate_size(options: JsonConfig, width: int, gated: bool) -> int:
    """Return the number of features between the matrices of a feed-forward network."""
    if not gated:
        return int(options.get("n_inner", 4 * width))
    return -(-int(options.get("n_inner", 8 * width / 3)) // _MULTIPLE) * _MULTIPLE


def _rotary(options: JsonConfig, head_size: int) -> Rotary:
    share, factor = options["rotary_emb_fraction"], options.get("rotary_scaling_factor")
    if share <= 0:
        raise options.unsupported("rotary_emb_fraction", share, "more than 0")
    trained = options.get("max_trained_positions", 2048)
    return Rotary(
        dim=int(head_size * share),
        base=float(options.get("rotary_emb_base", 10_000.0)),
        interleaved=options.get("rotary_emb_interleaved", False),
        scaling=Scaling(kind="dynamic", factor=factor, original=trained) if factor else Scaling(),
    )


def _names(
    gated: bool = True, qkv: bool = False, up: bool = False, down: bool = False
) -> dict[str, str]:
    # qkv, up, down: whether these layers have a bias.
    gate = linear(f"{_OWN}.mlp.fc12", "layers.{}.gate", up) if gated else {}
    return {
        **_COMMON,
        **affine("emb_ln", "norm"),
        **linear(f"{_OWN}.attn.Wqkv", "layers.{}.query|key|value", qkv),
        **linear(f"{_OWN}.attn.out_proj", "layers.{}.output", qkv),
        **affine(f"{_OWN}.norm1", "layers.{}.attention_norm"),
        **linear(f"{_OWN}.mlp.{'fc11' if gated else 'fc1'}", "layers.{}.up", up),
        **gate,
        **linear(f"{_OWN}.mlp.fc2", "layers.{}.down", down),
        **affine(f"{_OWN}.norm2", "layers.{}.ffn_norm"),
    }


FAMILIES = (
    Family(
        model_types=("nomic_bert",),
        read=read,
        classification_head=two_layers("nomic_bert.pooler.dense", "classifier"),
        masked_lm_head=masked_lm_head(
            f"{PREDICTIONS}.transform.dense",
            f"{PREDICTIONS}.transform.layer_norm",
            f"{PREDICTIONS}.decoder",
            f"{PREDICTIONS}.bias",
        ),
        tokenizer_override="normalizer",
        replaced_code=("NomicBertModel",),
        row=DocsRow(
            "NomicBERT", "nomic-embed v1, v1.5", positions="rotary", layers="post-norm, gated FFN"
        ),
        further_rows=(
            DocsRow(
                "NomicBERT with a mixture of experts",
                "nomic-embed-text-v2-moe",
                positions="rotary",
                layers="post-norm, experts in every second layer",
            ),
            DocsRow(
                "Nomic Embed Vision, [images](image-inputs.md)",
                "nomic-embed-vision v1, v1.5",
                positions="learned; rotary by row and column",
                layers="pre-norm, gated FFN; pooled by attention",
            ),
        ),
    ),
)
