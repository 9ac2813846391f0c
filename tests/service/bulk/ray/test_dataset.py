"""Texts of a Ray Dataset: the same vectors, rows without one, and wrong columns."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.cluster_utils import Cluster

from embedwell_bulk import BulkError
from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.ray.dataset import EmbedTexts
from embedwell_models.embedder import Embedder
from tests.conftest import COMPILED, Folder
from tests.service.bulk.jobs import prose, vectors_of, write_parquet
from tests.service.bulk.ray.cluster import kill_process, ray_cluster
from tests.service.server import MAX_ISA

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data"),  # its own
]


@pytest.fixture(scope="module")
def folder(tiny_bert: Folder) -> Path:
    return tiny_bert(**COMPILED, num_hidden_layers=8)


@pytest.fixture(scope="module")
def small(folder: Path) -> LocalModel:
    """The model that the actors load, here."""
    return LocalModel(Embedder.load(folder, device="cpu", dtype="float32"), "small")


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, Any]:
    return {"model": str(folder), "dtype": "float32", "isa": MAX_ISA}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_cluster(nodes=2, cpus=3) as cluster:
        ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        yield cluster
        ray.shutdown()


def embedded(dataset: ray.data.Dataset, actors: int, **arguments: Any) -> ray.data.Dataset:
    return dataset.map_batches(
        EmbedTexts,
        fn_constructor_kwargs=arguments,
        batch_format="pyarrow",
        batch_size=256,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )


def table_of(dataset: ray.data.Dataset) -> pa.Table:
    return pa.concat_tables(ray.get(dataset.to_arrow_refs())).sort_by("id")


def test_each_row_has_the_vector_of_its_text(
    cluster: Cluster, settings: dict[str, Any], small: LocalModel, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "in.parquet", 3000)
    dataset = ray.data.read_parquet(str(tmp_path / "in.parquet")).repartition(8)
    embedded(dataset, 4, **settings).write_parquet(str(tmp_path / "out"))
    table = pq.read_table(tmp_path / "out").sort_by("id")
    assert table["id"].to_pylist() == [*range(3000)] and table["tags"][0].as_py() == ["a", "b"]
    np.testing.assert_array_equal(vectors_of(table), small.embedder.embed(prose(3000)))
    assert table["embedding_error"].null_count == 3000


def test_nothing_is_lost_or_doubled_when_an_actor_is_killed(
    cluster: Cluster, settings: dict[str, Any], small: LocalModel
) -> None:
    dataset = ray.data.from_arrow(pa.table({"id": range(8000), "text": prose(8000)}))
    result = embedded(dataset.repartition(32), 2, **settings)
    batches = iter(result.iter_batches(batch_format="pyarrow", batch_size=None))
    tables = [next(batches)]
    kill_process("ray::MapWorker")
    tables += batches
    table = pa.concat_tables(tables).sort_by("id")
    assert table["id"].to_pylist() == [*range(8000)]
    np.testing.assert_array_equal(vectors_of(table), small.embedder.embed(prose(8000)))


def test_a_row_without_a_text_has_no_vector_but_a_reason(
    settings: dict[str, Any], small: LocalModel
) -> None:
    embed = EmbedTexts("body", "a copy of ", threads=1, **settings)
    table = embed(pa.table({"body": ["work", None, "license"]}))
    vectors = table["embedding"].combine_chunks()
    expected = small.embedder.embed(["a copy of work", "a copy of license"])
    np.testing.assert_array_equal(vectors.is_valid(), [True, False, True])
    np.testing.assert_array_equal(vectors.drop_null().flatten().to_numpy().reshape(2, -1), expected)
    assert table["embedding_error"].to_pylist() == [None, "body is null", None]


def test_a_batch_without_rows_has_both_columns(settings: dict[str, Any]) -> None:
    empty = pa.table({"text": pa.array([], pa.string())})
    table = EmbedTexts(threads=1, **settings)(empty)
    assert table.column_names == ["text", "embedding", "embedding_error"]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"text": np.array(["a"])}, 'batch_format="pyarrow"'),
        (pa.table({"id": [1]}), "no column 'text'; it has: id"),
        (pa.table({"text": [1]}), "'text' has the type int64, not string"),
    ],
)
def test_a_batch_without_texts_is_refused(
    batch: Any, message: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(BulkError, match=message):
        EmbedTexts(threads=1, **settings)(batch)


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BulkError, match="no model"):
        EmbedTexts(threads=1, model=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("values", "message"),
    [({"dtyp": "int8"}, "no setting 'dtyp'"), ({"dtype": "int2"}, "dtype: Input should be")],
)
def test_a_setting_that_there_is_not_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BulkError, match=message):
        EmbedTexts(**values)
