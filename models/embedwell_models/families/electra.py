"""ELECTRA (Clark et al. 2020, arXiv 2003.10555): a BERT with tables of another width."""

from embedwell_models.config.checkpoint_spec import CheckpointSpec, affine
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import bert

UNUSED = (
    *bert.UNUSED,
    "discriminator_predictions.*",
    "generator_predictions.*",
    "generator_lm_head.*",
)


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of an ELECTRA, generator or discriminator."""
    options.require("position_embedding_type", "absolute")
    config = bert.config(options, embedding_size=options["embedding_size"])
    tensors = dict(bert.TENSORS)
    if config.embedding_size != config.hidden_size:
        tensors |= affine("embeddings_project", "project")
    return CheckpointSpec(config=config, tensors=tensors, unused=UNUSED, prefixes=("electra.",))
