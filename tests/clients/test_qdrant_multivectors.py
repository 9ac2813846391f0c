"""Qdrant's client, which stores a vector for each token and compares them by MaxSim."""

from collections.abc import Iterator

import pytest
from qdrant_client import QdrantClient, models

from tests.models.colbert import DOCUMENTS, WIDTH, write_stanford
from tests.service.local_server import local_server
from tests.service.server import HttpServer

QUERY = "the license of a work"


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("colbert")
    write_stanford(folder)
    with local_server(folder) as server:
        yield server


def test_qdrant_ranks_as_the_server_does(colbert: HttpServer) -> None:
    documents = colbert.client.post("/embed", json={"inputs": DOCUMENTS}).json()
    body = {"inputs": QUERY, "input_type": "query"}
    (query,) = colbert.client.post("/embed", json=body).json()
    client = QdrantClient(":memory:")
    client.create_collection(
        "documents",
        vectors_config=models.VectorParams(
            size=WIDTH,
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(
                comparator=models.MultiVectorComparator.MAX_SIM
            ),
        ),
    )
    points = [models.PointStruct(id=i, vector=rows) for i, rows in enumerate(documents)]
    client.upsert("documents", points)
    found = client.query_points("documents", query=query, limit=len(DOCUMENTS)).points
    ranking = colbert.client.post("/rerank", json={"query": QUERY, "texts": DOCUMENTS}).json()
    assert [point.id for point in found] == [entry["index"] for entry in ranking]
    scores = [entry["score"] for entry in ranking]
    assert [point.score for point in found] == pytest.approx(scores, rel=1e-4)
    client.close()
