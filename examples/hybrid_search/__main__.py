"""Measure each stage of a search: words, dense and sparse vectors, their fusion, reranking."""

from collections.abc import Sequence

import click
import psycopg

from embedwell_client import Client
from embedwell_client.request_builders import SparseOptions
from examples.hybrid_search.documents import Document, read_documents
from examples.hybrid_search.store import DocumentStore, dense_literal, sparse_literal

RERANKED = 20  # documents that a reranker reads for a query
TOP_K = 256  # entries of a sparse vector that are stored


@click.command()
@click.option("--database", required=True, help="postgresql://…, with pgvector 0.7 or newer.")
@click.option("--server", default="http://localhost:8080", show_default=True)
@click.option("--sparse", help="Name of a model of sparse vectors on the same server.")
@click.option("--reranker", help="Name of a reranker on the same server.")
@click.option("--documents", default=1000, show_default=True, help="At most so many.")
def main(
    database: str,
    server: str,
    sparse: str | None,
    reranker: str | None,
    documents: int,
) -> None:
    """Search docstrings of Python by their first lines; print how often each stage succeeds."""
    corpus = read_documents(documents)
    with Client(server) as client, psycopg.connect(database) as connection:
        search = Search(client, connection, corpus, sparse)
        click.echo(f"{'stage':<24}first  in 10  MRR@10   ({len(corpus)} documents)")
        stages = [["words"], ["dense"], ["words", "dense"]]
        if sparse:
            stages += [["sparse"], ["words", "dense", "sparse"], ["dense", "sparse"]]
        for names in stages:
            report(" + ".join(names), [search.rank(i, names) for i in range(len(corpus))])
        if reranker:
            ranked = [search.rerank(i, stages[-1], reranker) for i in range(len(corpus))]
            report("reranked", ranked)


class Search:
    """A store filled with documents, and the parameters of each document's query."""

    def __init__(
        self,
        client: Client,
        connection: psycopg.Connection[object],
        documents: Sequence[Document],
        sparse_model: str | None,
    ) -> None:
        self._client = client
        self._documents = documents
        texts = [document.text for document in documents]
        queries = [document.query for document in documents]
        dense = client.embed(texts, input_type="document")
        query_vectors = client.embed(queries, input_type="query")
        self._store = DocumentStore(connection, dense.shape[1])
        self._parameters: list[dict[str, object]] = [
            {"text": query, "dense": dense_literal(vector)}
            for query, vector in zip(queries, query_vectors, strict=True)
        ]
        sparse = None
        if sparse_model:
            options: SparseOptions = {"model": sparse_model, "top_k": TOP_K}
            sparse = client.embed_sparse(texts, **options | {"input_type": "document"})
            weights = client.embed_sparse(queries, **options | {"input_type": "query"})
            for parameters, vector in zip(self._parameters, weights, strict=True):
                parameters["sparse"] = sparse_literal(vector)
        self._store.insert(texts, dense, sparse)

    def rank(self, query: int, names: Sequence[str]) -> list[int]:
        """Rank the documents for a query by the rankings of these names."""
        return self._store.rank(names, self._parameters[query])

    def rerank(self, query: int, names: Sequence[str], model: str) -> list[int]:
        """Rank them again by a model that reads the query and each of the best documents."""
        best = self.rank(query, names)[:RERANKED]
        texts = [self._documents[index].text for index in best]
        order = self._client.rerank(self._documents[query].query, texts, model=model)
        return [best[index] for index in order["index"]]


def report(stage: str, rankings: Sequence[Sequence[int]]) -> None:
    """Print how often the right document is first or among ten, and the mean reciprocal rank."""
    places = [
        ranking.index(query) + 1 if query in ranking[:10] else None
        for query, ranking in enumerate(rankings)
    ]
    reciprocal = [1 / place if place else 0 for place in places]
    first = places.count(1) / len(places)
    in_ten = sum(place is not None for place in places) / len(places)
    mrr = sum(reciprocal) / len(places)
    click.echo(f"{stage:<24}{first:5.1%}  {in_ten:5.1%}  {mrr:.3f}")


if __name__ == "__main__":
    main()
