"""BigBird (Zaheer et al. 2020, arXiv 2007.14062) for texts that get full attention."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families import bert, heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import two_layers

_ATTENTION_IS_SPARSE = {"block_sparse": True, "original_full": False}
_BLOCKS_OF_WINDOWS = 5
_DEFAULTS = {"hidden_act": "gelu_new"}
_HEAD = two_layers("classifier.dense", "classifier.out_proj", None)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a BigBird: a BERT.

    transformers computes full attention for texts of few blocks, and this encoder accepts only
    these. The sparse attention of longer texts depends on random numbers and on the padding.
    """
    options.require("use_bias", True)
    sparse = options.choice("attention_type", _ATTENTION_IS_SPARSE, "block_sparse")
    blocks = _BLOCKS_OF_WINDOWS + 2 * options.get("num_random_blocks", 3)
    positions = options["max_position_embeddings"]
    limit = blocks * options.get("block_size", 64) if sparse else positions
    rescaled = options.get("rescale_embeddings", False)
    config = bert.config(
        options.with_defaults(_DEFAULTS),
        max_positions=min(positions, limit),
        token_scale=options["hidden_size"] ** 0.5 if rescaled else 1.0,
    )
    return ModelSpec(
        config=config,
        tensors=bert.TENSORS,
        unused=(*bert.UNUSED, "qa_classifier.*"),
        prefixes=("bert.",),
        shapes={"position_table": (positions, config.hidden_size)},
    )


FAMILIES = (
    Family(
        model_types=("big_bird",),
        read=read,
        classification_head=lambda options: _HEAD(options.with_defaults(_DEFAULTS)),
        masked_lm_head=heads.BERT_MASKED_LM,
        row=DocsRow(
            "[BigBird](#limits-of-single-families)",
            "bigbird-roberta-base",
            positions="learned",
            layers="post-norm",
        ),
    ),
)
