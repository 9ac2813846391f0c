"""XLNet (Yang et al. 2019, arXiv 1906.08237), with the positions of Transformer-XL."""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import ClassificationLayers, LinearLayer
from embedwell_models.positions.schemes import TransformerXL

_POOLINGS = {"last": "lasttoken", "cls_index": "lasttoken", "first": "cls", "mean": "mean"}
_TRAINED = 512  # tokens of the longest training text; XLNet has no limit
TENSORS = {
    "word_embedding.weight": "token_table",
    "layer.{}.rel_attn.q": "layers.{}.query.weight",
    "layer.{}.rel_attn.k": "layers.{}.key.weight",
    "layer.{}.rel_attn.v": "layers.{}.value.weight",
    "layer.{}.rel_attn.o": "layers.{}.output.weight",
    "layer.{}.rel_attn.r": "layers.{}.relative.weight",
    "layer.{}.rel_attn.r_w_bias": "layers.{}.query.bias",
    "layer.{}.rel_attn.r_r_bias": "layers.{}.position_bias",
    **affine("layer.{}.rel_attn.layer_norm", "layers.{}.attention_norm"),
    **affine("layer.{}.ff.layer_1", "layers.{}.up"),
    **affine("layer.{}.ff.layer_2", "layers.{}.down"),
    **affine("layer.{}.ff.layer_norm", "layers.{}.ffn_norm"),
}
UNUSED = (  # a text has one segment, and no token is masked
    "mask_emb",
    "layer.{}.rel_attn.r_s_bias",
    "layer.{}.rel_attn.seg_embed",
    *("lm_loss.*", "sequence_summary.*", "logits_proj.*", "classifier.*", "qa_outputs.*"),
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an XLNet.

    All tokens are in one segment, so segment scores are the same for every key. XLNet's tokenizer
    puts the last token, <cls>, in another segment; with its type ids, the states of the reference
    model differ slightly.
    """
    options.require("attn_type", "bi")
    options.require("bi_data", False)
    options.require("untie_r", True)
    options.require("clamp_len", -1, 0)
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=options.first_of("d_model", "hidden_size"),
        num_layers=options.first_of("n_layer", "num_hidden_layers"),
        num_heads=options.first_of("n_head", "num_attention_heads"),
        head_size=options.get("d_head", 0),
        intermediate_size=options["d_inner"],
        max_positions=_TRAINED,
        activation=options.choice("ff_activation", ACTIVATIONS, "gelu"),
        norm_eps=options.get("layer_norm_eps", 1e-12),
        positions=TransformerXL(),
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=UNUSED,
        prefixes=("transformer.",),
        transposed=("query.weight", "key.weight", "value.weight", "relative.weight"),
    )


def head(options: JsonConfig) -> ClassificationLayers:
    """Return the head of a classifier, which the options `summary_...` describe."""
    heads.refuse_segments(options)
    options.require("summary_use_proj", True)
    activation = "Identity"
    if options.nullable("summary_activation", "tanh"):
        activation = options.choice("summary_activation", heads.ACTIVATIONS, "tanh")
    return ClassificationLayers(
        options.choice("summary_type", _POOLINGS, "last"),
        (LinearLayer("sequence_summary.summary", activation),),
        LinearLayer("logits_proj"),
    )


FAMILIES = (
    Family(
        model_types=("xlnet",),
        read=read,
        classification_head=head,
        tokenizer_override="nothing",
        row=DocsRow("XLNet", positions="as Transformer-XL", layers="post-norm"),
    ),
)
