"""Doc2Vec (Le and Mikolov 2014, arXiv 1405.4053), as embedwell_models.convert.doc2vec writes it."""

from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.json_config import JsonConfig

FAMILY = "doc2vec"


def read(options: JsonConfig) -> CheckpointSpec:
    """Build the spec of a Doc2Vec; the id after the ids of its words means an unknown word."""
    words, width = options["vocab_size"], options["hidden_size"]
    config = EncoderConfig(
        family=FAMILY,
        vocab_size=words + 1,
        unknown_id=words,
        hidden_size=width,
        num_layers=0,
        num_heads=1,
        intermediate_size=0,
        max_positions=options.get("max_position_embeddings", UNLIMITED),
        norm_eps=0.0,
    )
    shapes: dict[str, tuple[int, ...]] = {
        "token_table": (words, width),
        "output_table": (words, width),
        "keep": (words,),
        "noise": (words,),
    }
    return CheckpointSpec(config=config, tensors={name: name for name in shapes}, shapes=shapes)
