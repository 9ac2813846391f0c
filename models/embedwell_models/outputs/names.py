"""Names of the outputs of a text; see embedwell_models.outputs.text_outputs."""

DENSE, SPARSE, MULTI = "dense", "sparse", "multi"
SPARSE_QUERY = "sparse_query"
"""The sparse vector of a query, where it is computed in another way."""
