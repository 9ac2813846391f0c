"""RoFormer (Su et al. 2021, arXiv 2104.09864): a BERT with rotary positions."""

from models.config.blueprint import Blueprint, affine
from models.config.json_config import JsonConfig
from models.families import bert
from models.positions.schemes import Rotary, Scheme

_PLACED = "embeddings.position_embeddings."
TENSORS = {theirs: ours for theirs, ours in bert.TENSORS.items() if not theirs.startswith(_PLACED)}
UNUSED = (*bert.UNUSED, "encoder.embed_positions.weight")  # sinusoids, which are computed


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a RoFormer."""
    raw.only("rotary_value", False)
    width = raw["hidden_size"]
    config = bert.config(
        raw,
        embedding_size=raw.get("embedding_size", width),
        table=Scheme(),
        positions=Rotary(dim=width // raw["num_attention_heads"], interleaved=True),
    )
    project = affine("embeddings_project", "project") if config.embedding_size != width else {}
    return Blueprint(
        config=config, tensors={**TENSORS, **project}, unused=UNUSED, prefixes=("roformer.",)
    )
