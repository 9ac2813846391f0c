"""Files of BGE-M3 (Chen et al. 2024, arXiv 2402.03216) beside the files of its encoder."""

TOKEN_WEIGHTS = "sparse_linear.safetensors"  # noqa: S105 - a file
"""File of the linear layer from a token's state to its weight."""

TOKEN_VECTORS = "colbert_linear.safetensors"  # noqa: S105 - a file
"""File of the linear layer from a token's state to its vector."""

PICKLED_HEADS = ("sparse_linear.pt", "colbert_linear.pt")
"""Published files of the linear layers for sparse and multi-vector outputs."""
