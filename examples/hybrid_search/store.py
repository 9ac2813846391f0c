"""Documents in PostgreSQL with pgvector, ranked by words, by vectors and by both."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import scalar_row

from embedwell_client import SparseWeights

VOCABULARY = 1_000_000  # width of sparse vectors, larger than any vocabulary
CANDIDATES = 50  # the best of each ranking are fused

# plainto_tsquery asks for all words of a text; a question needs some of them.
_ANY_WORD = "(SELECT replace(plainto_tsquery('english', %(text)s)::text, '&', '|')::tsquery AS any)"

# Each query orders by an expression that an index of pgvector or GIN supports.
RANKINGS = {
    "words": f"""
        SELECT id, rank() OVER (ORDER BY ts_rank_cd(words, query.any) DESC) AS rank
        FROM documents, {_ANY_WORD} AS query WHERE words @@ query.any
        ORDER BY ts_rank_cd(words, query.any) DESC, id LIMIT {CANDIDATES}""",
    "dense": f"""
        SELECT id, rank() OVER (ORDER BY dense <=> %(dense)s::vector) AS rank
        FROM documents ORDER BY dense <=> %(dense)s::vector LIMIT {CANDIDATES}""",
    "sparse": f"""
        SELECT id, rank() OVER (ORDER BY sparse <#> %(sparse)s::sparsevec) AS rank
        FROM documents ORDER BY sparse <#> %(sparse)s::sparsevec LIMIT {CANDIDATES}""",
}


class DocumentStore:
    """A table of documents that lasts as long as the connection; dim: of the dense vectors."""

    def __init__(self, connection: psycopg.Connection[Any], dim: int) -> None:
        self._connection = connection
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"""
            CREATE TEMPORARY TABLE documents (
                id int PRIMARY KEY,
                text text NOT NULL,
                words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED,
                dense vector({dim}) NOT NULL,
                sparse sparsevec({VOCABULARY})
            )""")

    def insert(
        self, texts: Sequence[str], dense: Any, sparse: Sequence[SparseWeights] | None
    ) -> None:
        """Store texts under their numbers, with dense (N, dim) and optionally sparse vectors."""
        with (
            self._connection.cursor() as cursor,
            cursor.copy("COPY documents (id, text, dense, sparse) FROM STDIN") as copy,
        ):
            for number, text in enumerate(texts):
                weights = sparse_literal(sparse[number]) if sparse else None
                copy.write_row((number, text, dense_literal(dense[number]), weights))

    def rank(self, names: Sequence[str], parameters: Mapping[str, object]) -> list[int]:
        """Return the best documents by rankings of these names, the best first.

        Several are fused by reciprocal rank (Cormack et al. 2009, with their k = 60).
        """
        ranked = " UNION ALL ".join(f"({RANKINGS[name]})" for name in names)
        fused = f"""
            SELECT id FROM ({ranked}) AS ranked
            GROUP BY id ORDER BY sum(1.0 / (60 + rank)) DESC, id LIMIT {CANDIDATES}"""
        with self._connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(fused.encode(), parameters).fetchall()


def sparse_literal(vector: SparseWeights) -> str:
    """Write a sparse vector as pgvector reads it: {index:weight,…}/width, from 1."""
    entries = zip(vector.indices + 1, vector.weights, strict=True)
    weights = ",".join(f"{index}:{weight}" for index, weight in entries)
    return f"{{{weights}}}/{VOCABULARY}"


def dense_literal(vector: Any) -> str:
    """Write a vector as pgvector reads it."""
    return f"[{','.join(map(str, vector))}]"
