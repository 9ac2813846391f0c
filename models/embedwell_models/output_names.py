"""Names of the tasks of models, and of the outputs of a text; see embedwell_models.outputs."""

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
LISTWISE = "listwise"
"""Name of the vectors of the documents and of the query in a sequence of a listwise reranker."""
