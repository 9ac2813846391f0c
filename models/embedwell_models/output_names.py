"""Names of the outputs of a text; see embedwell_models.outputs."""

DENSE, SPARSE, MULTI = "dense", "sparse", "multi"
DECISION = "decision"
"""Name of the scores of the options of a question, for decision models."""
SPARSE_QUERY = "sparse_query"
"""Name of the sparse vector of a query, if queries are computed differently from documents."""
LISTWISE = "listwise"
"""Name of the vectors of the documents and of the query in a sequence of a listwise reranker."""
