"""NeoBERT (Le Breton et al. 2025, arXiv 2502.19587)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import linear
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Rotary

_MULTIPLE = 8
_TENSORS = {
    "encoder.weight": "token_table",
    **linear("transformer_encoder.{}.qkv", "layers.{}.query|key|value"),
    **linear("transformer_encoder.{}.wo", "layers.{}.output"),
    **linear("transformer_encoder.{}.ffn.w12", "layers.{}.gate|up"),
    **linear("transformer_encoder.{}.ffn.w3", "layers.{}.down"),
    **linear("transformer_encoder.{}.attention_norm", "layers.{}.attention_norm"),
    **linear("transformer_encoder.{}.ffn_norm", "layers.{}.ffn_norm"),
    **linear("layer_norm", "final_norm"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a NeoBERT, as its own code (class NeoBERT) computes it."""
    for key in ("rope", "rms_norm"):  # options of the code that trained it
        options.require(key, True)
    options.require("hidden_act", "swiglu", "SwiGLU")
    options.require("ngpt", False)
    width, heads = options["hidden_size"], options["num_attention_heads"]
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options["num_hidden_layers"],
        num_heads=heads,
        intermediate_size=-(-int(2 * options["intermediate_size"] / 3) // _MULTIPLE) * _MULTIPLE,
        max_positions=int(options.get("max_length", 1024)),
        limited=True,
        activation="silu",
        gated=True,
        norm="rms",
        norm_eps=options.get("norm_eps", 1e-6),
        arrangement="pre",
        positions=Rotary(dim=width // heads, interleaved=True),
    )
    return ModelSpec(
        config=config,
        tensors=_TENSORS,
        unused=("decoder.*", "dense.*", "classifier.*", "freqs_cis"),
        prefixes=("model.",),
        by_head=True,
    )


FAMILIES = (
    Family(
        model_types=("neobert",),
        read=read,
        replaced_code=("NeoBERT",),
        row=DocsRow(
            "NeoBERT", "NeoBERT", positions="rotary", layers="pre-norm (RMSNorm), gated FFN"
        ),
    ),
)
