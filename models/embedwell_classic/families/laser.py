"""LASER 2 and 3 (Heffernan et al. 2022, arXiv 2205.12654), as `convert.laser` writes them.

LASER 2 is a bidirectional LSTM (Artetxe and Schwenk 2018, arXiv 1812.10464). LASER 3 has a
transformer for each language, whose vectors are in the space of LASER 2.
"""

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS, LayerSpec
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Learned

LSTM, TRANSFORMER = "laser2", "laser3"
"""Values of model_type."""
_LSTM_TENSORS = {
    "embed_tokens.weight": "token_table",
    **{
        f"lstm.{{}}.{direction}.{part}": f"layers.{{}}.{direction}.{part}"
        for direction in ("forward", "backward")
        for part in ("input.weight", "input.bias", "recurrent.weight")
    },
}
_FINAL = affine("layer_norm", "final_norm")
_EMBEDDING = affine("layernorm_embedding", "norm")
_TRANSFORMER_TENSORS = {
    "embed_tokens.weight": "token_table",
    "embed_positions.weight": "position_table",
    **affine("layers.{}.self_attn.q_proj", "layers.{}.query"),
    **affine("layers.{}.self_attn.k_proj", "layers.{}.key"),
    **affine("layers.{}.self_attn.v_proj", "layers.{}.value"),
    **affine("layers.{}.self_attn.out_proj", "layers.{}.output"),
    **affine("layers.{}.self_attn_layer_norm", "layers.{}.attention_norm"),
    **affine("layers.{}.fc1", "layers.{}.up"),
    **affine("layers.{}.fc2", "layers.{}.down"),
    **affine("layers.{}.final_layer_norm", "layers.{}.ffn_norm"),
}


def lstm(options: JsonConfig) -> ModelSpec:
    """Build the spec of a LASER 2."""
    cells, layers = options["hidden_size"], options["num_hidden_layers"]
    config = EncoderConfig(
        vocab_size=options["vocab_size"],
        embedding_size=options["embedding_size"],
        hidden_size=2 * cells,
        layers=tuple(LayerSpec(weights=index) for index in range(layers)),
        max_positions=options["max_position_embeddings"],
        norm_eps=0.0,
    )
    inputs = [config.embedding_size, *[config.hidden_size] * (layers - 1)]
    shapes = {
        f"layers.{index}.{direction}.{part}": shape
        for index, width in enumerate(inputs)
        for direction in ("forward", "backward")
        for part, shape in {
            "input.weight": (4 * cells, width),
            "input.bias": (4 * cells,),
            "recurrent.weight": (4 * cells, cells),
        }.items()
    }
    return ModelSpec(config=config, tensors=_LSTM_TENSORS, shapes=shapes)


def transformer(options: JsonConfig) -> ModelSpec:
    """Build the spec of a LASER 3."""
    width = options["hidden_size"]
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options["num_hidden_layers"],
        num_heads=options["num_attention_heads"],
        intermediate_size=options["intermediate_size"],
        max_positions=options["max_position_embeddings"],
        norm_eps=options.get("layer_norm_eps", 1e-5),
        activation=options.choice("activation_function", ACTIVATIONS, "relu"),
        token_scale=width**0.5 if options.get("scale_embedding", True) else 1.0,
        arrangement="pre" if options.get("normalize_before", False) else "post",
        input_positions=Learned(),
    )
    norms = {
        **(_FINAL if options.get("final_norm", False) else {}),
        **(_EMBEDDING if options.get("embedding_norm", False) else {}),
    }
    return ModelSpec(config=config, tensors={**_TRANSFORMER_TENSORS, **norms})


_ROW = DocsRow(
    "[LASER](older-encoders.md) 2, 3",
    "laser2, laser3-wol_Latn",
    positions="none (2); sinusoidal (3)",
    layers="bidirectional LSTM (2); transformer, pre- or post-norm (3)",
    torch="LASER 2",
)
FAMILIES = (
    Family(
        model_types=(LSTM,),
        read=lstm,
        encoder_loader="embedwell_classic.encoders.lstm:BiLstmEncoder.load",
        on_torch=True,
        row=_ROW,
    ),
    Family(model_types=(TRANSFORMER,), read=transformer, row=_ROW),
)
