"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): a BERT with tables of another width."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import masked_lm_head, two_layers

UNUSED = (
    *bert.UNUSED,
    "discriminator_predictions.*",
    "generator_predictions.*",
    "generator_lm_head.*",
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an ELECTRA, generator or discriminator."""
    options.require("position_embedding_type", "absolute")
    config = bert.config(options, embedding_size=options["embedding_size"])
    tensors = dict(bert.TENSORS)
    if config.embedding_size != config.hidden_size:
        tensors |= affine("embeddings_project", "project")
    return ModelSpec(config=config, tensors=tensors, unused=UNUSED, prefixes=("electra.",))


FAMILIES = (
    Family(
        model_types=("electra",),
        read=read,
        classification_head=two_layers("classifier.dense", "classifier.out_proj", "GELU"),
        masked_lm_head=masked_lm_head(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head",
            activation="gelu",
        ),
        tokenizer_override="normalizer",
        row=DocsRow("ELECTRA", positions="learned", layers="as BERT"),
    ),
)
