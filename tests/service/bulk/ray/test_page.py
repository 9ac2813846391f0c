"""The examples of docs/ray.md and of deploy/ray run."""

import logging
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import yaml

from embedwell_models.embedder import Embedder
from tests.service.bulk.jobs import prose, vectors_of
from tests.service.local_server import local_server
from tests.service.server import MAX_ISA

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "ray.md").read_text(encoding="utf-8")
DATASET, REQUESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning:ray",  # all of these are its own
        "ignore::pydantic.warnings.PydanticDeprecationWarning",
        "ignore::ResourceWarning",
        "ignore:The minimum number of concurrent actors:UserWarning",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the file of the page."""
    pq.write_table(pa.table({"id": range(20), "body": prose(20)}), tmp_path / "documents.parquet")
    with chdir(tmp_path):
        yield tmp_path


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster with room for actors and for those that read."""
    options: Any = {"include_dashboard": False, "log_to_driver": False}
    ray.init("local", num_cpus=6, logging_level=logging.ERROR, **options)
    yield
    ray.shutdown()


def run(example: str, shared: Path) -> None:
    """Run Python of the page, whose folder /shared is at another place."""
    exec(compile(example.replace("/shared/", f"{shared}/"), "example.py", "exec"), {})


def test_the_example_of_a_dataset_embeds_it(
    cluster: None, folder: Path, embedder: Embedder
) -> None:
    run(DATASET.replace('"dtype":', f'"isa": {MAX_ISA!r}, "dtype":'), folder)
    table = pq.read_table(folder / "embedded").sort_by("id")
    np.testing.assert_array_equal(vectors_of(table), embedder.embed(prose(20)))


def test_the_example_of_servers_asks_them(
    cluster: None, folder: Path, minilm_folder: Path, embedder: Embedder
) -> None:
    with local_server(minilm_folder) as server:
        run(REQUESTS.replace("http://localhost:8080", server.url), folder)
    table = pq.read_table(folder / "requested").sort_by("id")
    vectors = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(prose(20)))


def serve_arguments() -> list[dict[str, Any]]:
    """The arguments of the deployment in the page and in the files."""
    [line] = re.findall(r"^serve run \S+:build (.*)$", PAGE, re.MULTILINE)
    serve = yaml.safe_load((ROOT / "deploy/ray/serve.yaml").read_text(encoding="utf-8"))
    cluster = yaml.safe_load((ROOT / "deploy/ray/kuberay.yaml").read_text(encoding="utf-8"))
    configs = [serve, yaml.safe_load(cluster["spec"]["serveConfigV2"])]
    assert {app["import_path"] for config in configs for app in config["applications"]} == {
        "embedwell_bulk.ray.serve:build"
    }
    return [
        dict(item.split("=") for item in line.split()),
        *(config["applications"][0]["args"] for config in configs),
    ]


@pytest.mark.parametrize("arguments", serve_arguments())
def test_the_arguments_of_deployments_are_accepted(arguments: dict[str, Any]) -> None:
    from embedwell_bulk.ray.serve import Arguments

    assert Arguments.model_validate(arguments).cpus == 4


def test_an_argument_that_there_is_not_is_refused() -> None:
    from embedwell_bulk.ray.serve import Arguments

    with pytest.raises(ValueError, match="no setting 'max_replica'"):
        Arguments.model_validate({"max_replica": 4})
