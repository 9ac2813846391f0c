"""Doc2Vec (Le and Mikolov 2014, arXiv 1405.4053), as `convert.gensim_models` writes it."""

from embedwell_models.config.encoder_config import UNLIMITED, EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import DocsRow, Family

MODEL_TYPE = "doc2vec"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Doc2Vec; the id after the ids of its words means an unknown word."""
    words, width = options["vocab_size"], options["hidden_size"]
    config = EncoderConfig(
        vocab_size=words + 1,
        unknown_id=words,
        hidden_size=width,
        layers=(),
        max_positions=options.get("max_position_embeddings", UNLIMITED),
        norm_eps=0.0,
    )
    shapes: dict[str, tuple[int, ...]] = {
        "token_table": (words, width),
        "output_table": (words, width),
        "keep": (words,),
        "noise": (words,),
    }
    return ModelSpec(config=config, tensors={name: name for name in shapes}, shapes=shapes)


FAMILIES = (
    Family(
        model_types=(MODEL_TYPE,),
        read=read,
        encoder_loader="embedwell_classic.encoders.doc2vec:Doc2VecEncoder.load",
        row=DocsRow(
            "[Doc2Vec](older-encoders.md#doc2vec)",
            "gensim models",
            positions="none",
            layers="none; inferred by gradient steps",
        ),
    ),
)
