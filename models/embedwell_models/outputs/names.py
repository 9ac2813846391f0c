"""Names of tasks and of the outputs of a text, and limits of what is made of token vectors."""

from typing import Literal

Task = Literal["embed", "multi_vector", "rerank", "classify", "decide"]
"""Task of a model: to embed texts or tokens, to rerank, to classify or to decide."""

DENSE, SPARSE, MULTI = "dense", "sparse", "multi"
DECISION = "decision"
"""Name of the scores of the options of a question, for decision models."""
LABELS = "labels"
"""Name of the scores of candidate labels, for models that read them with the text."""
SPARSE_QUERY = "sparse_query"
"""Name of the sparse vector of a query, if queries are computed differently from documents."""
MAX_POOL_FACTOR = 32
"""Largest divisor of the number of a document's token vectors, see encoder.token_pooling."""
MUVERA_LIMITS = {"k_sim": 10, "dim_proj": 128, "r_reps": 64}
"""Largest value of each option of encoder.muvera; the smallest is 1."""
LISTWISE = "listwise"
"""Name of the vectors of the documents and of the query in a sequence of a listwise reranker."""
