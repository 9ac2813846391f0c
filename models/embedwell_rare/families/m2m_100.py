"""Encoders of M2M-100 (Fan et al. 2020, arXiv 2010.11125), NLLB and SONAR (2308.11466)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Sinusoidal

_LAYER = "layers.{}"
_TENSORS = {
    "embed_tokens.weight": "token_table",
    "shared.weight": "token_table",
    **affine(f"{_LAYER}.self_attn.q_proj", "layers.{}.query"),
    **affine(f"{_LAYER}.self_attn.k_proj", "layers.{}.key"),
    **affine(f"{_LAYER}.self_attn.v_proj", "layers.{}.value"),
    **affine(f"{_LAYER}.self_attn.out_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.self_attn_layer_norm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.fc1", "layers.{}.up"),
    **affine(f"{_LAYER}.fc2", "layers.{}.down"),
    **affine(f"{_LAYER}.final_layer_norm", "layers.{}.ffn_norm"),
    **affine("layer_norm", "final_norm"),
}
_NORM_EPS = 1e-5  # torch's default


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an encoder; a decoder in the checkpoint is ignored."""
    width = options.first_of("d_model", "hidden_size")
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options.first_of("encoder_layers", "num_hidden_layers"),
        num_heads=options.first_of("encoder_attention_heads", "num_attention_heads"),
        intermediate_size=options["encoder_ffn_dim"],
        max_positions=options.get("max_position_embeddings", 1024),
        activation=options.choice("activation_function", ACTIVATIONS, "relu"),
        norm_eps=_NORM_EPS,
        arrangement="pre",
        token_scale=width**0.5 if options.get("scale_embedding", True) else 1.0,
        input_positions=Sinusoidal(halves=True, offset=options.get("pad_token_id", 1) + 1),
    )
    return ModelSpec(
        config=config,
        tensors=_TENSORS,
        unused=("embed_positions.weights", "decoder.*", "lm_head.weight"),
        prefixes=("model.encoder.", "encoder.", "model."),
    )


FAMILIES = (
    Family(
        model_types=("m2m_100",),
        read=read,
        tokenizer_override="nothing",
        ignored_keys=("decoder_*", "encoder_layerdrop", "num_hidden_layers"),
        row=DocsRow(
            "M2M-100, [one language](model-files.md#languages-of-sonar) for all texts",
            "SONAR_200_text_encoder",
            positions="sinusoidal",
            layers="pre-norm",
        ),
    ),
)
