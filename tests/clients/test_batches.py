"""The example of docs/batches.md, and further uses of OpenAI's client for files and batches."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest

from embedwell_models import Embedder
from tests.clients.example_program import run_program
from tests.service.batches.stores import requests
from tests.service.local_server import local_server
from tests.service.server import HttpServer

PAGE = (Path(__file__).parents[2] / "docs" / "batches.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def batch_server(
    minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    """A server of the default model that computes batches."""
    folder = tmp_path_factory.mktemp("batches")
    with local_server(minilm_folder, batch_folder=folder) as server:
        yield server


def test_the_example_has_the_vectors_of_its_texts(
    batch_server: HttpServer, embedder: Embedder
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    vectors = run_program(batch_server, example, "vectors")
    assert [*vectors] == ["text 0", "text 1"]
    expected = embedder.embed(["A first text.", "Ein zweiter Text."])
    np.testing.assert_array_equal(np.array([*vectors.values()], dtype=np.float32), expected)


def test_the_client_lists_cancels_and_deletes(batch_server: HttpServer) -> None:
    with openai.OpenAI(base_url=f"{batch_server.url}/v1", api_key="unused") as client:
        names = []
        for number in range(3):
            file = client.files.create(file=(f"{number}", requests(200)), purpose="batch")
            names.append(file.filename)
            batch = client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/embeddings",
                completion_window="24h",
                metadata={"number": str(number)},
            )
        assert batch.metadata == {"number": "2"} and batch.object == "batch"
        cancelled = client.batches.cancel(batch.id)
        assert cancelled.status in {"cancelling", "cancelled"}
        while client.batches.retrieve(batch.id).status == "cancelling":
            time.sleep(0.02)
        assert client.batches.retrieve(batch.id).status == "cancelled"
        listed = [batch.metadata for batch in client.batches.list(limit=2)]  # over several pages
        assert listed[:3] == [{"number": "2"}, {"number": "1"}, {"number": "0"}]
        files = [*client.files.list(purpose="batch")]
        assert [file.filename for file in files[:3]] == names[::-1]
        assert client.files.delete(files[0].id).deleted
        with pytest.raises(openai.NotFoundError, match="there is no file"):
            client.files.retrieve(files[0].id)


def test_the_client_may_choose_when_results_expire(batch_server: HttpServer) -> None:
    with openai.OpenAI(base_url=f"{batch_server.url}/v1", api_key="unused") as client:
        file = client.files.create(file=("short", requests(1)), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/embeddings",
            completion_window="24h",
            output_expires_after={"anchor": "created_at", "seconds": 3600},
        )
        while batch.status != "completed":
            time.sleep(0.02)
            batch = client.batches.retrieve(batch.id)
        assert batch.output_file_id is not None
        output = client.files.retrieve(batch.output_file_id)
        assert output.expires_at is not None and output.expires_at - output.created_at == 3600
        with pytest.raises(openai.BadRequestError, match="greater than or equal to 3600"):
            client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/embeddings",
                completion_window="24h",
                output_expires_after={"anchor": "created_at", "seconds": 60},
            )
