"""RoBERTa (Liu et al. 2019, arXiv 1907.11692), XLM-RoBERTa and CamemBERT, with BERT's names."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert, heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers
from embedwell_models.positions.schemes import Learned

_FLASH = "encoder.layers.{}"
FLASH_TENSORS = {
    **affine("emb_ln", "norm"),
    **affine(f"{_FLASH}.mixer.Wqkv", "layers.{}.query|key|value"),
    **affine(f"{_FLASH}.mixer.out_proj", "layers.{}.output"),
    **affine(f"{_FLASH}.norm1", "layers.{}.attention_norm"),
    **affine(f"{_FLASH}.mlp.fc1", "layers.{}.up"),
    **affine(f"{_FLASH}.mlp.fc2", "layers.{}.down"),
    **affine(f"{_FLASH}.norm2", "layers.{}.ffn_norm"),
}
"""Names of the layers in Jina's own code of XLM-RoBERTa, as in jina-reranker-v2."""
UNUSED = (*bert.UNUSED, "lm_head.*")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a RoBERTa."""
    options.require("position_embedding_type", "absolute")
    # Rows of the position table up to the padding token's id belong to no position.
    offset = options.get("pad_token_id", 1) + 1
    config = bert.config(
        options,
        input_positions=Learned(offset=offset),
        max_positions=options["max_position_embeddings"] - offset,
    )
    return ModelSpec(
        config=config,
        tensors={**bert.TENSORS, **FLASH_TENSORS},
        unused=UNUSED,
        prefixes=("roberta.",),
    )


HEAD = two_layers("classifier.dense", "classifier.out_proj")
_ROW = DocsRow(
    "RoBERTa, XLM-RoBERTa, CamemBERT",
    "BGE-M3 (dense), multilingual E5, Arctic-l v2, jina-reranker-v2",
    positions="learned, with offset",
    layers="post-norm",
)
_ROBERTA = Family(
    model_types=("roberta",),
    read=read,
    classification_head=HEAD,
    masked_lm_head=heads.ROBERTA_MASKED_LM,
    tokenizer_override="prefix_space",
    row=_ROW,
)
FAMILIES = (
    _ROBERTA,
    replace(
        _ROBERTA,
        model_types=("xlm-roberta", "camembert"),
        tokenizer_override="nothing",
        replaced_code=("XLMRobertaModel",),
    ),
)
