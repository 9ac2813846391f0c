"""DistilBERT (Sanh et al. 2019, arXiv 1910.01108)."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import masked_lm_head, two_layers
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


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a DistilBERT."""
    sinusoidal = options.require("sinusoidal_pos_embds", False, True)
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=options.first_of("dim", "hidden_size"),
        num_layers=options.first_of("n_layers", "num_hidden_layers"),
        num_heads=options.first_of("n_heads", "num_attention_heads"),
        intermediate_size=options["hidden_dim"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("activation", ACTIVATIONS, "gelu"),
        norm_eps=1e-12,
        input_positions=Sinusoidal() if sinusoidal else Learned(),
    )
    return ModelSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("distilbert.",))


FAMILIES = (
    Family(
        model_types=("distilbert",),
        read=read,
        classification_head=two_layers("pre_classifier", "classifier", "ReLU"),
        masked_lm_head=masked_lm_head("vocab_transform", "vocab_layer_norm", "vocab_projector"),
        tokenizer_override="normalizer",
        row=DocsRow(
            "DistilBERT",
            "multi-qa-distilbert, msmarco-distilbert",
            positions="learned or sinusoidal",
            layers="post-norm",
        ),
    ),
)
