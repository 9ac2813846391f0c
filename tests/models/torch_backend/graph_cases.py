"""Encoders whose passes are recorded as graphs."""

from tests.models.families.checkpoint import Case

DYNAMIC = {
    "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 50.0},
    "max_position_embeddings": 24,
}

CASES = [
    Case("bert"),
    Case("modernbert", {"local_attention": 10, "pad_token_id": 0}),
    Case("nomic_bert", DYNAMIC),  # the turns depend on a text's own length
    Case("qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
]

RELATIVE_CASES = [  # attention by the kernel of Triton
    Case("t5", {"relative_attention_max_distance": 12}),
    Case("mpnet"),
    Case("deberta-v2"),
    Case("gemma2"),
]
