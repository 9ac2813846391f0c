"""DistilBERT (Sanh et al. 2019, arXiv 1910.01108)."""

from embedwell_models.config.activations import ACTIVATIONS
from embedwell_models.config.checkpoint_spec import CheckpointSpec, affine
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.positions.schemes import Learned, Sinusoidal

_LAYER = "transformer.layer.{}"
TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.position_embeddings.weight": "position_table",
    **affine("embeddings.LayerNorm", "norm"),
    **affine(f"{_LAYER}.attention.q_lin", "layers.{}.query"),
    **affine(f"{_LAYER}.attention.k_lin", "layers.{}.key"),
    **affine(f"{_LAYER}.attention.v_lin", "layers.{}.value"),
    **affine(f"{_LAYER}.attention.out_lin", "layers.{}.output"),
    **affine(f"{_LAYER}.sa_layer_norm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.ffn.lin1", "layers.{}.up"),
    **affine(f"{_LAYER}.ffn.lin2", "layers.{}.down"),
    **affine(f"{_LAYER}.output_layer_norm", "layers.{}.ffn_norm"),
}
UNUSED = (
    "embeddings.position_ids",
    "vocab_*",
    "pre_classifier.*",
    "classifier.*",
    "qa_outputs.*",
)


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a DistilBERT."""
    sinusoidal = options.require("sinusoidal_pos_embds", False, True)
    config = EncoderConfig(
        family="distilbert",
        vocab_size=options["vocab_size"],
        hidden_size=options["dim"],
        num_layers=options["n_layers"],
        num_heads=options["n_heads"],
        intermediate_size=options["hidden_dim"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("activation", ACTIVATIONS, "gelu"),
        norm_eps=1e-12,
        input_positions=Sinusoidal() if sinusoidal else Learned(),
    )
    return CheckpointSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("distilbert.",))
