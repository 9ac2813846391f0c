"""RoFormer (Su et al. 2021, arXiv 2104.09864): a BERT with rotary positions."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert, heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers
from embedwell_models.positions.schemes import Rotary, Scheme

_POSITIONS = "embeddings.position_embeddings."
TENSORS = {
    theirs: ours for theirs, ours in bert.TENSORS.items() if not theirs.startswith(_POSITIONS)
}
UNUSED = (*bert.UNUSED, "encoder.embed_positions.weight")  # unused sinusoids


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a RoFormer."""
    options.require("rotary_value", False)
    width = options["hidden_size"]
    config = bert.config(
        options,
        embedding_size=options.get("embedding_size", width),
        input_positions=Scheme(),
        positions=Rotary(dim=width // options["num_attention_heads"], interleaved=True),
    )
    project = affine("embeddings_project", "project") if config.embedding_size != width else {}
    return ModelSpec(
        config=config, tensors={**TENSORS, **project}, unused=UNUSED, prefixes=("roformer.",)
    )


FAMILIES = (
    Family(
        model_types=("roformer",),
        read=read,
        classification_head=two_layers("classifier.dense", "classifier.out_proj", None),
        masked_lm_head=heads.BERT_MASKED_LM,
        row=DocsRow("RoFormer", "roformer_chinese_char", positions="rotary", layers="post-norm"),
    ),
)
