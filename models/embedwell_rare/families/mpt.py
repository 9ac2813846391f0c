"""MPT (MosaicML 2023)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import decoder
from embedwell_models.positions.schemes import Alibi

TENSORS = {
    "wte.weight": "token_table",
    **linear("blocks.{}.norm_1", "layers.{}.attention_norm"),
    **linear("blocks.{}.attn.Wqkv", "layers.{}.query|key|value"),
    **linear("blocks.{}.attn.out_proj", "layers.{}.output"),
    **linear("blocks.{}.norm_2", "layers.{}.ffn_norm"),
    **linear("blocks.{}.ffn.up_proj", "layers.{}.up"),
    **linear("blocks.{}.ffn.down_proj", "layers.{}.down"),
    **linear("norm_f", "final_norm"),
}
_ATTENTION: dict[str, tuple[object, ...]] = {  # supported values of attn_config
    "attn_type": ("multihead_attention",),
    "clip_qkv": (None,),
    "prefix_lm": (False,),
    "qk_ln": (False,),
    "attn_uses_sequence_id": (False,),
    "alibi": (True,),
    "alibi_bias_max": (8,),
    "rope": (False,),
    "sliding_window_size": (-1,),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an MPT."""
    options.require("no_bias", True)
    options.require("is_causal", True)  # otherwise its ALiBi bias would favour later tokens
    options.require("norm_type", "low_precision_layernorm", "layernorm")
    attention = options.nested("attn_config")
    for key, allowed in _ATTENTION.items():
        attention.require(key, *allowed)
    width = options.first_of("d_model", "hidden_size")
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options.first_of("n_layers", "num_hidden_layers"),
        num_heads=options.first_of("n_heads", "num_attention_heads"),
        intermediate_size=width * options.get("expansion_ratio", 4),
        max_positions=options["max_seq_len"],
        norm_eps=options.get("layer_norm_epsilon", 1e-5),
        positions=Alibi(),
        arrangement="pre",
        causal=True,
        scale=attention.get("softmax_scale", 0.0),
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=("lm_head.weight", "score.weight"),
        prefixes=("transformer.",),
    )


FAMILIES = (
    Family(
        model_types=("mpt",),
        read=read,
        classification_head=decoder,
        row=DocsRow("MPT", positions="ALiBi", layers="causal"),
    ),
)
