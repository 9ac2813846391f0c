"""JinaBERT (Günther et al. 2023, arXiv 2310.19923): a BERT with symmetric ALiBi and GLU.

The variant for programming languages also normalises queries, keys and the sum after attention.
"""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_models.families.heads import two_layers
from embedwell_models.positions.schemes import Alibi, Scheme

_LAYER = "encoder.layer.{}"
_POSITIONS = "embeddings.position_embeddings."
_FFN = tuple(f"{_LAYER}.{part}." for part in ("intermediate", "output"))
COMMON = {
    theirs: ours
    for theirs, ours in bert.TENSORS.items()
    if not theirs.startswith((_POSITIONS, *_FFN))
}
TENSORS = {
    **COMMON,
    f"{_LAYER}.mlp.gated_layers.weight": "layers.{}.gate|up.weight",
    **affine(f"{_LAYER}.mlp.wo", "layers.{}.down"),
    **affine(f"{_LAYER}.mlp.layernorm", "layers.{}.ffn_norm"),
}
CODE = {
    **COMMON,
    **affine(f"{_LAYER}.attention.self.layer_norm_q", "layers.{}.query_norm"),
    **affine(f"{_LAYER}.attention.self.layer_norm_k", "layers.{}.key_norm"),
    **affine(f"{_LAYER}.attention.output.LayerNorm", "layers.{}.attention_output_norm"),
    **affine(f"{_LAYER}.layer_norm_1", "layers.{}.attention_norm"),
    f"{_LAYER}.mlp.up_gated_layer.weight": "layers.{}.up|gate.weight",
    **affine(f"{_LAYER}.mlp.down_layer", "layers.{}.down"),
    **affine(f"{_LAYER}.layer_norm_2", "layers.{}.ffn_norm"),
}
_GATES = {"geglu": "gelu", "reglu": "relu"}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a JinaBERT; the name of its remote code identifies the code variant."""
    code = "qk-post-norm" in f"{options.get('_name_or_path')} {options.get('auto_map')}"
    config = bert.config(
        options,
        input_positions=Scheme(),
        positions=Alibi(),
        activation=options.choice("feed_forward_type", _GATES),
        gated=True,
        arrangement="double_post" if code else "post",
    )
    return ModelSpec(
        config=config,
        tensors=CODE if code else TENSORS,
        unused=bert.UNUSED,
        prefixes=("bert.",),
    )


FAMILIES = (
    Family(
        model_types=(Variant.by_positions("bert", "alibi"),),
        name="jina_bert",
        read=read,
        classification_head=two_layers("bert.pooler.dense", "classifier"),
        replaced_code=("JinaBertModel",),
        row=DocsRow(
            "JinaBERT v2",
            "jina-embeddings-v2, jina-reranker-v1",
            positions="ALiBi",
            layers="post-norm, gated FFN",
            torch="the model of code",
        ),
    ),
)
