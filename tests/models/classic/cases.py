"""A model of each classic family that transformers has, with its sizes."""

from transformers import FunnelModel

from tests.models.families.checkpoint import SIZES, Case

CANINE_SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "num_hash_buckets": 300,
    "max_position_embeddings": 256,
}
CANINE = Case("canine", {"local_transformer_stride": 16}, CANINE_SIZES)

FUNNEL_SIZES = {"vocab_size": 99, "d_model": 64, "n_head": 4, "d_head": 16, "d_inner": 96}
FUNNEL_BLOCKS = {"block_sizes": [2, 1, 2], "num_decoder_layers": 2}
FUNNEL = Case("funnel", FUNNEL_BLOCKS, FUNNEL_SIZES, model=FunnelModel)

MOBILEBERT_SIZES = {
    **SIZES,
    "embedding_size": 24,
    "intra_bottleneck_size": 32,
    "max_position_embeddings": 64,
}
MOBILEBERT = Case("mobilebert", {}, MOBILEBERT_SIZES)
